# SPDX-License-Identifier: MIT
# The fuzzers of user space, with all that they need of it under the sanitizers as well; one
# object per file, so that a change costs one. OUT and ROOT are tests/fuzz/user's.
CXX := clang++
FLAGS := -std=c++20 -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
# The parser of TOML is the library's, as in swiftd: its header alone comes with assertions.
FLAGS += -DTOML_HEADER_ONLY=0 -DTOML_SHARED_LIB=1
FLAGS += $(addprefix -I,$(sort $(dir $(wildcard $(ROOT)/userspace/*/*.h $(ROOT)/userspace/*/*/*.h))))
FLAGS += -isystem $(ROOT)/kmod -isystem $(ROOT)/bpf

needs_diag := $(addprefix lib/,base/text base/result netlink/netlink_bytes flows/diag_parse flows/flow)
needs_genl := $(addprefix lib/,base/result netlink/link_parse netlink/netlink_bytes clocks/clock_fit clocks/genl_parse)
needs_result := $(addprefix lib/base/,result text) $(addprefix swiftctl/ab/,ab_samples iperf_run) \
	$(addprefix swiftctl/report/,ab_json report_read statistics)
needs_probe := $(addprefix lib/,base/result base/text flows/flow) \
	$(addprefix swiftctl/probe/,probe_packet probe_exchange probe_responder)
needs_swiftd := $(addprefix swiftd/,api config metrics options store) \
	$(addprefix lib/base/,log_histogram real_system result system text) \
	$(addprefix lib/netlink/,link_parse netlink_bytes) \
	$(addprefix lib/flows/,diag_client diag_parse flow flow_table iface_map summary) \
	$(addprefix lib/clocks/,clock_fit genl_client genl_parse stamping) \
	$(addprefix lib/,bpf/bpf_host bpf/telemetry tune/tuner)
$(OUT)/fuzz_swiftd: LIBRARIES := -ltomlplusplus -lfmt -lprometheus-cpp-core -lmnl -lbpf

.SECONDEXPANSION:
$(addprefix $(OUT)/fuzz_,diag genl result probe swiftd): $(OUT)/fuzz_%: $(OUT)/fuzz_%.o $$(addprefix $(OUT)/,$$(addsuffix .o,$$(needs_$$*)))
	$(CXX) -fsanitize=fuzzer,address,undefined $^ -o $@ $(LIBRARIES)

$(OUT)/fuzz_%.o: $(ROOT)/tests/swiftctl/fuzz_%.cpp
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -MMD -c $< -o $@

$(OUT)/fuzz_%.o: $(ROOT)/tests/swiftd/fuzz_%.cpp
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -MMD -c $< -o $@

$(OUT)/%.o: $(ROOT)/userspace/%.cpp
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -MMD -c $< -o $@

.SECONDARY:
-include $(wildcard $(OUT)/*.d $(OUT)/*/*.d $(OUT)/*/*/*.d $(OUT)/*/*/*/*.d)
