# SPDX-License-Identifier: MIT
# The trace format as a library for other programs: libtracefmt.so and .a, one header, a pkg-config file. What it
# exports is what tracefmt.h declares.
TFMT_ABI := 1
TFMT_PACKAGE_VERSION := $(TFMT_ABI).0

$(TFMT_SRC:%.c=$(O)/%.o): override CFLAGS += -fPIC -fno-semantic-interposition
$(TFMT_SRC:%.c=$(O)/%.o): override CPPFLAGS += -DTFMT_EXPORTS

$(O)/libtracefmt.map: tracefmt/tracefmt.h
	$(Q)mkdir -p $(@D)
	$(Q){ echo 'TRACEFMT_$(TFMT_ABI) { global:'; \
		sed -n 's/^[a-z].*[ *]\(tfmt_[a-z_0-9]*\)(.*/\1;/p' $<; echo 'local: *; };'; } >$@

$(O)/libtracefmt.so.$(TFMT_ABI): $(TFMT_SRC:%.c=$(O)/%.o) $(O)/libtracefmt.map
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -shared -Wl,-soname,$(@F) -Wl,--version-script=$(O)/libtracefmt.map \
		-Wl,--no-undefined -o $@ $(filter %.o,$^) $(LDFLAGS) -lzstd

$(O)/prefix.key: FORCE
	$(call remember,$(PREFIX))

$(O)/tracefmt.pc: $(O)/prefix.key tracefmt/tracefmt.mk
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'Name: tracefmt' \
		'Description: Read and write recordings of GPU memory (vramtrace)' 'Version: $(TFMT_PACKAGE_VERSION)' \
		'Requires.private: libzstd' 'Cflags: -I$${prefix}/include' 'Libs: -L$${prefix}/lib -ltracefmt' >$@

all: $(O)/libtracefmt.so.$(TFMT_ABI)
