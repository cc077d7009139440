# SPDX-License-Identifier: MIT
# The fuzzers of user space, with all that they need of it under the sanitizers as well; one
# object per file, so that a change costs one. OUT and ROOT are tests/fuzz/user's.
CXX := clang++
FLAGS := -std=c++20 -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
# The parser of TOML is the library's, as in swiftd: its header alone comes with assertions.
FLAGS += -DTOML_HEADER_ONLY=0 -DTOML_SHARED_LIB=1
FLAGS += $(addprefix -I$(ROOT)/userspace/,lib swiftctl swiftd web) -isystem $(ROOT)/kmod -isystem $(ROOT)/bpf

needs_diag := $(addprefix lib/,diag_parse flow text result netlink_bytes)
needs_genl := $(addprefix lib/,genl_parse link_parse netlink_bytes clock_fit result)
needs_result := $(addprefix lib/,ab_json ab_samples iperf_run statistics text result) swiftctl/report_read
needs_probe := $(addprefix lib/,probe_packet probe_exchange probe_responder flow text result)
needs_swiftd := $(addprefix swiftd/,api config metrics options store) \
	$(addprefix lib/,clock_fit diag_client diag_parse genl_client genl_parse stamping) \
	$(addprefix lib/,bpf_host flow flow_table iface_map link_parse log_histogram netlink_bytes real_system \
	result summary system telemetry text tuner)
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
-include $(wildcard $(OUT)/*.d $(OUT)/*/*.d)
