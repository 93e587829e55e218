# SPDX-License-Identifier: MIT
# Flags and pattern rules: how things are built. What is built stands in the Makefile.

V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = @printf '  %-5s %s\n' $(1) $(2)

ifeq ($(origin CC),default)
CC := gcc
endif
OBJCOPY ?= objcopy
OPTIMIZE := $(if $(DEBUG),-O0,$(if $(SAN),-O1,-O2))
CFLAGS ?= $(OPTIMIZE) -g

WARN := -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -Wshadow -Wvla -Wpointer-arith -Wwrite-strings
override CPPFLAGS += -I. -D_GNU_SOURCE
override CFLAGS += -std=gnu11 -fvisibility=hidden $(WARN) $(if $(CI),-Werror)

# C++ is for toml++ alone (analyzer/recording/toml.cc); the C compiler compiles it, so that CC= chooses for both.
CXXFLAGS ?= $(OPTIMIZE) -g
override CXXFLAGS += -std=c++17 -fvisibility=hidden -Wall -Wextra -Wshadow $(if $(CI),-Werror)

# Sanitizers and coverage: for the analyzer and the unit tests. What is preloaded into somebody else's program
# is never instrumented, because the sanitizers' runtimes and gcov want to be there first.
comma := ,
INSTRUMENT := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer) \
	$(if $(findstring fuzzer-no-link,$(SAN)),-fno-sanitize=vptr$(comma)function) \
	$(if $(COVERAGE),--coverage)

# Code that runs in the traced process: no TLS allocation behind our back, and unwindable all through.
PRELOAD_CFLAGS := -fPIC -ftls-model=initial-exec -fexceptions
PRELOAD_LDFLAGS := -Wl,-z,defs -Wl,-z,now -Wl,-z,relro -Wl,-Bsymbolic-functions -Wl,--as-needed \
	-Wl,--exclude-libs,ALL -static-libgcc

CUDA_CFLAGS = $(foreach d,$(CUDA_INC),-isystem $(d))

# $(call remember,TEXT): the recipe of a file that changes only when TEXT does.
remember = @mkdir -p $(@D); printf '%s\n' '$(strip $(1))' | cmp -s - $@ || printf '%s\n' '$(strip $(1))' >$@

$(O)/flags.key: FORCE
	$(call remember,$(FLAGS_KEY))

$(O)/%.o: %.c $(O)/flags.key
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(INSTRUMENT) -MMD -MP -c -o $@ $<

$(O)/%.o: %.cc $(O)/flags.key
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CXXFLAGS) $(INSTRUMENT) -MMD -MP -c -o $@ $<

$(O)/preload/%.o: %.c $(O)/flags.key
	@mkdir -p $(@D)
	$(call say,CC,'$< (preload)')
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(PRELOAD_CFLAGS) $(CUDA_CFLAGS) -MMD -MP -c -o $@ $<

$(O)/%.a:
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: FORCE
