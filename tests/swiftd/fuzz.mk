# SPDX-License-Identifier: MIT
# The fuzzer, with all that it needs of swiftd and libswift under the sanitizers as well; one
# object per file, so that a change costs one. OUT and ROOT are tests/swiftd/run's.
CXX := clang++-14
FLAGS := -std=c++20 -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
# The parser of TOML is the library's, as in swiftd: its header alone comes with assertions.
FLAGS += -DTOML_HEADER_ONLY=0 -DTOML_SHARED_LIB=1
FLAGS += -I$(ROOT)/userspace/lib -I$(ROOT)/userspace/swiftd -I$(ROOT)/userspace/web -isystem $(ROOT)/kmod -isystem $(ROOT)/bpf
SOURCES := $(addprefix swiftd/,api config metrics options store) \
	$(addprefix lib/,clock_fit diag_client diag_parse genl_client genl_parse stamping) \
	$(addprefix lib/,bpf_host flow flow_table iface_map link_parse log_histogram netlink_bytes real_system \
	result summary system telemetry text tuner)
OBJECTS := $(patsubst %,$(OUT)/%.o,$(SOURCES))

$(OUT)/fuzz_swiftd: $(OUT)/fuzz_swiftd.o $(OBJECTS)
	$(CXX) -fsanitize=fuzzer,address,undefined $^ -o $@ -ltomlplusplus -lfmt -lprometheus-cpp-core -lmnl -lbpf

$(OUT)/fuzz_swiftd.o: fuzz_swiftd.cpp
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -MMD -c $< -o $@

$(OUT)/%.o: $(ROOT)/userspace/%.cpp
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -MMD -c $< -o $@

-include $(wildcard $(OUT)/*.d $(OUT)/*/*.d)
