# SPDX-License-Identifier: MIT
# The one thing the analyzer takes from simgpu, at build time: the names that `run --simulate` knows, and their capacities.

$(O)/gen/gpu_names.h: simgpu/profiles.def analyzer/analyzer.mk
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed -n 's/^PROFILE( *\("[^"]*"\), *\("[^"]*"\), *\([0-9]*\)ULL.*/GPU(\1, \2, \3ull)/p; s/^ALIAS(.*)/&/p' $< >$@

# private: what flags.key remembers must not depend on who asked for it first.
$(O)/analyzer/gpu/gpunames.o: private override CPPFLAGS += -I$(O)
$(O)/analyzer/gpu/gpunames.o: $(O)/gen/gpu_names.h

# calibrate calls NVIDIA's libraries, which it opens at run time, through their headers.
CALIBRATE_SRC := $(wildcard analyzer/calibrate/*.c) analyzer/cmds/cmd_calibrate.c
$(CALIBRATE_SRC:%.c=$(O)/%.o): private override CFLAGS += $(CUDA_CFLAGS)
