# SPDX-License-Identifier: MIT
# simgpu: the simulated GPU, one preload library under the names that programs look for.

SIM_SRC := $(wildcard simgpu/*.c)
SIM_OBJ := $(SIM_SRC:%.c=$(O)/preload/%.o)
SIM_GEN := $(O)/simgpu/generated

# CUPTI sees the functions that sources define through wrappers: the definitions get other names.
SIM_BODY := $(SIM_SRC:simgpu/%.c=$(O)/simgpu/bodies/%.o)

$(SIM_GEN)/callbacks.c: simgpu/gen_callbacks.py simgpu/gen_stubs.py $(SIM_OBJ)
	$(call say,GEN,$@)
	$(Q)python3 simgpu/gen_callbacks.py --cc '$(CC)' $(CUDA_INC:%=--include %) --out $(SIM_GEN) $(SIM_OBJ)

$(SIM_GEN)/renames.txt: $(SIM_GEN)/callbacks.c ;

$(O)/simgpu/bodies/%.o: $(O)/preload/simgpu/%.o $(SIM_GEN)/renames.txt
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJCOPY) --redefine-syms=$(SIM_GEN)/renames.txt $< $@

# Every documented function that no source defines gets a typed default, from the headers. Python writes them.
$(SIM_GEN)/stubs.c: simgpu/gen_stubs.py simgpu/names.txt $(SIM_OBJ)
	$(call say,GEN,$@)
	$(Q)python3 simgpu/gen_stubs.py --cc '$(CC)' $(CUDA_INC:%=--include %) --names simgpu/names.txt \
		--out $(SIM_GEN) $(SIM_OBJ)

$(SIM_GEN)/symbol_table.c: $(SIM_GEN)/stubs.c ;

$(SIM_GEN)/%.o: $(SIM_GEN)/%.c $(O)/flags.key
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(PRELOAD_CFLAGS) $(CUDA_CFLAGS) -MMD -MP -c -o $@ $<

# The assembler puts the value shadow's Python source into this object.
$(O)/preload/simgpu/values.o: simgpu/values.py

# The soname is the driver's, so that the runtime half finds itself when it looks for the driver, as it does on a
# GPU. Nothing is versioned: an unversioned name in a preload satisfies the versioned ones that programs import.
# What the library itself looks up goes through the first dlsym of the process, a recorder's for one, not through its own.
SIM_LINK := $(SIM_BODY) $(SIM_GEN)/callbacks.o $(SIM_GEN)/stubs.o $(SIM_GEN)/symbol_table.o

$(O)/simgpu/libsimgpu.so: $(SIM_LINK) simgpu/preemptible.txt
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -shared -Wl,-soname,libcuda.so.1 -o $@ $(SIM_LINK) \
		$(PRELOAD_LDFLAGS) -Wl,--dynamic-list=simgpu/preemptible.txt $(LDFLAGS) -lpthread -ldl -lrt

# What is loaded into Python, not compiled.
SIM_PYTHON := $(patsubst simgpu/%,$(O)/simgpu/%,$(wildcard simgpu/python/*.py simgpu/python/*/*.py))

$(O)/simgpu/python/%.py: simgpu/python/%.py
	@mkdir -p $(@D)
	$(Q)cp $< $@

$(O)/simgpu/libcuda.so.1: $(O)/simgpu/libsimgpu.so $(SIM_PYTHON)
	$(Q)for l in libcuda.so.1 libcuda.so libnvidia-ml.so.1; do ln -sf libsimgpu.so $(@D)/$$l; done
	$(Q)touch -h $@
