# SPDX-License-Identifier: MIT
# C programs that use the simulated GPU as programs use CUDA: linked with it, through the public headers.

SIM_TEST := $(patsubst tests/simgpu/%.c,$(O)/tests/simgpu/%,$(wildcard tests/simgpu/test_*.c))

$(SIM_TEST:%=%.o): private CFLAGS += $(CUDA_CFLAGS)

$(SIM_TEST): %: %.o $(O)/simgpu/libcuda.so.1
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $< $(LDFLAGS) -Wl,--no-as-needed $(O)/simgpu/libsimgpu.so \
		-Wl,-rpath,$(abspath $(O))/simgpu -lcmocka

unit: unit-simgpu

unit-simgpu: $(SIM_TEST)
	$(Q)for t in $(SIM_TEST); do echo "  TEST  $$t"; $$t || exit 1; done

.PHONY: unit-simgpu
