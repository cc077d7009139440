# SPDX-License-Identifier: MIT
# The fuzzers of user space, with all that they need of it under the sanitizers as well; one
# object per file, so that a change costs one. OUT and ROOT are tests/fuzz/user's.
CXX := $(if $(shell command -v ccache),ccache )clang++
export CCACHE_BASEDIR := $(ROOT)
export CCACHE_NOHASHDIR := 1
FLAGS := -std=c++20 -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
# The parser of TOML is the library's, as in swiftd: its header alone comes with assertions.
FLAGS += -DTOML_HEADER_ONLY=0 -DTOML_SHARED_LIB=1
FLAGS += $(addprefix -I,$(sort $(dir $(wildcard $(ROOT)/userspace/*/*.h $(ROOT)/userspace/*/*/*.h))))
FLAGS += -isystem $(ROOT)/kmod -isystem $(ROOT)/bpf

needs_base := $(addprefix lib/base/,address result text)
needs_netlink := $(addprefix lib/netlink/,conversation genl netlink_bytes netlink_request)
needs_diag := $(needs_base) lib/netlink/netlink_bytes $(addprefix lib/flows/,diag_parse flow)
needs_genl := $(needs_base) $(needs_netlink) lib/netlink/route_parse lib/flows/credit_parse \
	$(addprefix lib/clocks/,clock_client_parse clock_fit)
needs_result := $(needs_base) $(addprefix lib/base/,printable shell_word) $(addprefix swiftctl/ab/,ab_plan ab_rr ab_samples iperf_run) \
	$(addprefix swiftctl/fleet_ab/,clustered fleet_files fleet_metrics fleet_plan prometheus) \
	$(addprefix swiftctl/report/,ab_json report_read statistics)
needs_probe := $(needs_base) lib/flows/flow \
	$(addprefix lib/probe/,probe_exchange probe_gate probe_keys probe_packet probe_peers probe_responder probe_socket)
needs_swiftd := $(addprefix swiftd/,api config exposition flow_search mesh_reader metrics metrics.pb native_histogram options store) \
	$(needs_base) $(addprefix lib/base/,files log_histogram printable process real_system toml_depth) \
	$(needs_netlink) $(addprefix lib/netlink/,route route_parse) \
	$(addprefix lib/flows/,cgroups diag_client diag_parse flow flow_json flow_table iface_map owner socket_processes summary verdict) \
	$(addprefix lib/probe/,probe_exchange probe_gate probe_keys probe_packet probe_peers probe_responder probe_results probe_socket) \
	$(addprefix lib/,clocks/clock_fit http/http_client tune/tuner tune/turns)
needs_policy := $(needs_base) lib/base/toml_depth lib/policy/policy $(addprefix lib/bpf/,bpf_law tunables)
$(OUT)/fuzz_genl: LIBRARIES := -lmnl
$(OUT)/fuzz_probe: LIBRARIES := -lnettle
$(OUT)/fuzz_policy: LIBRARIES := -ltomlplusplus -lfmt
$(OUT)/fuzz_result: LIBRARIES := -lfmt
$(OUT)/fuzz_swiftd: LIBRARIES := -ltomlplusplus -lfmt -lprometheus-cpp-core -lprotobuf-lite -lmnl -lnettle

.SECONDEXPANSION:
$(addprefix $(OUT)/fuzz_,diag genl result probe policy swiftd): $(OUT)/fuzz_%: $(OUT)/fuzz_%.o $$(addprefix $(OUT)/,$$(addsuffix .o,$$(needs_$$*)))
	$(CXX) -fsanitize=fuzzer,address,undefined $^ -o $@ $(LIBRARIES)

$(OUT)/fuzz_%.o: $(ROOT)/tests/swiftctl/fuzz_%.cpp
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -MMD -MP -MT $@ -c $< -o $@

$(OUT)/fuzz_%.o: $(ROOT)/tests/swiftd/fuzz_%.cpp
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -MMD -MP -MT $@ -c $< -o $@

# protoc's, of Prometheus' protocol
$(OUT)/swiftd/metrics.pb.cc: $(ROOT)/userspace/swiftd/metrics.proto
	@mkdir -p $(@D)
	protoc --proto_path=$(<D) --cpp_out=$(@D) $<
$(OUT)/swiftd/metrics.pb.o: $(OUT)/swiftd/metrics.pb.cc
	$(CXX) $(FLAGS) -w -c $< -o $@
$(OUT)/swiftd/exposition.o: $(OUT)/swiftd/metrics.pb.cc
$(OUT)/swiftd/exposition.o: FLAGS += -isystem $(OUT)/swiftd

$(OUT)/%.o: $(ROOT)/userspace/%.cpp
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -MMD -MP -MT $@ -c $< -o $@

.SECONDARY:
-include $(wildcard $(OUT)/*.d $(OUT)/*/*.d $(OUT)/*/*/*.d $(OUT)/*/*/*/*.d)
