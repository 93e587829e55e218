# SPDX-License-Identifier: MIT
# What the Python package carries (setup/build_wheel.py): the command with its libraries linked in, the recorder, the
# simulated GPU, and the licences of what is linked in.
PACKAGE := $(O)/package

# Debian has the archives; the compiler may be one that does not look there (setup/portable.sh).
archive = $(shell gcc -print-file-name=lib$(1).a)
CXX_ARCHIVE ?= $(call archive,stdc++)
PACKAGE_LIBS = $(foreach l,dw elf json-c sqlite3 ncursesw tinfo zstd lzma bz2 z,$(call archive,$(l))) $(CXX_ARCHIVE) -lm -lpthread -ldl

$(PACKAGE)/vramtrace: $(O)/analyzer/main.o $(O)/libanalyzer.a $(O)/libtracefmt.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -s -static-libgcc -o $@ $^ $(LDFLAGS) $(PACKAGE_LIBS)

$(PACKAGE)/libinterpose.so $(PACKAGE)/simgpu/libsimgpu.so: $(PACKAGE)/%: $(O)/%
	@mkdir -p $(@D)
	$(Q)$(OBJCOPY) --strip-debug $< $@

# A wheel holds no links: programs open the simulated driver and NVML through libraries that hold nothing, and need it.
# It is found by that name, not by its soname, through a stand-in at link time.
PACKAGE_ALIASES := $(addprefix $(PACKAGE)/simgpu/,libcuda.so.1 libcuda.so libnvidia-ml.so.1)

$(O)/package-alias/libsimgpu.so:
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -nostdlib -Wl,-soname,libsimgpu.so -o $@ -x c /dev/null

$(PACKAGE_ALIASES): $(O)/package-alias/libsimgpu.so $(PACKAGE)/simgpu/libsimgpu.so
	$(call say,LD,$@)
	$(Q)$(CC) -shared -nostdlib -s -Wl,--no-as-needed -Wl,-rpath,'$$ORIGIN' -o $@ -x c /dev/null -x none $<

PACKAGE_PYTHON := $(SIM_PYTHON:$(O)/%=$(PACKAGE)/%)

$(PACKAGE_PYTHON): $(PACKAGE)/%: $(O)/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

# As Debian says them, and in full those that it names only.
PACKAGE_LICENSES := $(patsubst %,$(O)/package-licenses/%.txt,libdw-dev libjson-c-dev libzstd-dev liblzma-dev libsqlite3-dev \
	libbz2-dev zlib1g-dev libncurses-dev libtomlplusplus-dev libxxhash-dev libstdc++6)
PACKAGE_LICENSES_FULL := $(addprefix $(O)/package-licenses/,GPL-2 GPL-3 LGPL-3)

$(PACKAGE_LICENSES): $(O)/package-licenses/%.txt: /usr/share/doc/%/copyright
	@mkdir -p $(@D)
	$(Q)cp $< $@

$(PACKAGE_LICENSES_FULL): $(O)/package-licenses/%: /usr/share/common-licenses/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

## package: what the Python package carries, in build/package (`pip install .` makes and takes it)
package: $(PACKAGE)/vramtrace $(PACKAGE)/libinterpose.so $(PACKAGE)/simgpu/libsimgpu.so $(PACKAGE_ALIASES) \
	$(PACKAGE_PYTHON) $(PACKAGE_LICENSES) $(PACKAGE_LICENSES_FULL)

.PHONY: package
