# SPDX-License-Identifier: MIT
# Fuzzers: one program per tests/fuzz/fuzz_*.c, with AddressSanitizer and UBSan, for libFuzzer (clang) and for AFL++.
# CC=clang SAN=address,undefined,fuzzer-no-link makes unit tests and fuzzers of the same objects.
# What they found, and the small inputs they start from, lie in tests/fuzz/corpus/NAME/, words that help in NAME.dict;
# every `unit` reads the corpus with the build at hand.

TIME ?= 60
FUZZERS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SHARED := tests/fuzz/hostile_file.c tests/fuzz/reader_input.c
FUZZ_LIBRARY := $(TFMT_SRC) $(filter-out analyzer/main.c,$(AN_SRC)) analyzer/recording/toml.cc
FUZZ_LIBS = $(AN_LIBS) -lxxhash
FUZZ_FLAGS := -g -O1 -fno-sanitize-recover=all -fno-omit-frame-pointer

# $(call FUZZ_BUILD,FOLDER,COMPILER,FLAGS,LINKER'S FLAGS): all of it once more, as that engine wants it.
define FUZZ_BUILD
$(O)/$(1)/%.o: %.c $(O)/flags.key tests/fuzz/fuzz.mk $(O)/gen/gpu_names.h
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< ($(1))')
	$$(Q)$(2) $$(CPPFLAGS) -I$(O) $$(CUDA_CFLAGS) -std=gnu11 $$(WARN) $(FUZZ_FLAGS) $(3) -MMD -MP -c -o $$@ $$<

$(O)/$(1)/%.o: %.cc $(O)/flags.key tests/fuzz/fuzz.mk
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< ($(1))')
	$$(Q)$(2) $$(CPPFLAGS) -std=c++17 $(FUZZ_FLAGS) $(3) -MMD -MP -c -o $$@ $$<

$(O)/$(1)/library.a: $(patsubst %,$(O)/$(1)/%.o,$(basename $(FUZZ_LIBRARY)))

$(FUZZERS:%=$(O)/$(1)/%): $(O)/$(1)/%: $(O)/$(1)/tests/fuzz/fuzz_%.o $(FUZZ_SHARED:%.c=$(O)/$(1)/%.o) $(O)/$(1)/library.a
	$$(call say,LD,$$@)
	$$(Q)$(2) $(4) -o $$@ $$^ $$(FUZZ_LIBS)
endef
# vptr and function want the C++ runtime of the sanitizers, which a C compiler does not link.
FUZZ_SAN := -fsanitize=address,undefined -fno-sanitize=vptr,function
ifeq ($(findstring fuzzer-no-link,$(SAN)),)
$(eval $(call FUZZ_BUILD,fuzz,clang,$(FUZZ_SAN) -fsanitize=fuzzer-no-link,$(FUZZ_SAN) -fsanitize=fuzzer))
else
$(FUZZERS:%=$(O)/fuzz/%): $(O)/fuzz/%: $(O)/tests/fuzz/fuzz_%.o $(FUZZ_SHARED:%.c=$(O)/%.o) $(O)/libanalyzer.a $(O)/libtracefmt.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(FUZZ_SAN) -fsanitize=fuzzer -o $@ $^ $(LDFLAGS) $(FUZZ_LIBS)
endif
$(eval $(call FUZZ_BUILD,fuzz-afl,AFL_QUIET=1 AFL_USE_ASAN=1 AFL_USE_UBSAN=1 afl-clang-fast,,-fsanitize=fuzzer))

fuzzers: $(FUZZERS:%=$(O)/fuzz/%)

## fuzz: run every fuzzer for TIME seconds (60), on new inputs in the build folder; needs clang
fuzz: $(FUZZERS:%=fuzz-one-%)

# One by one is for make to say: as many at a time as it has jobs.
$(FUZZERS:%=fuzz-one-%): fuzz-one-%: fuzzers
	$(Q)TIME='$(TIME)' tests/fuzz/run.sh '$(O)' $*

## fuzz-afl: the same with AFL++ (Debian: afl++)
fuzz-afl: $(FUZZERS:%=$(O)/fuzz-afl/%)
	$(Q)TIME='$(TIME)' tests/fuzz/run_afl.sh '$(O)' $(FUZZERS)

# The corpus, once, by whatever compiler and sanitizers this build has.
$(O)/tests/fuzz/fuzz_questions.o: private override CFLAGS += $(CUDA_CFLAGS)

$(O)/fuzz/replay_%: $(O)/tests/fuzz/fuzz_%.o $(O)/tests/fuzz/run_target.o $(FUZZ_SHARED:%.c=$(O)/%.o) $(O)/libanalyzer.a \
		$(O)/libtracefmt.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $^ $(LDFLAGS) $(FUZZ_LIBS)

unit: unit-fuzz

unit-fuzz: $(FUZZERS:%=$(O)/fuzz/replay_%)
	$(Q)for f in $(FUZZERS); do echo "  TEST  corpus of fuzz_$$f"; \
		$(O)/fuzz/replay_$$f tests/fuzz/corpus/$$f/* || exit 1; done
	$(Q)$(O)/fuzz/replay_commands tests/fuzz/corpus/reader/* tests/golden/v1/*
	$(Q)$(O)/fuzz/replay_export tests/fuzz/corpus/reader/* tests/golden/v1/*
	$(Q)cat tests/golden/v1/named.vtr tests/golden/v1/named.2.names >'$(O)/fuzz/named'
	$(Q)FUZZ_ALL_COMMANDS=1 $(O)/fuzz/replay_commands '$(O)/fuzz/named' tests/fuzz/corpus/commands/*
	$(Q)FUZZ_ALL_COMMANDS=1 $(O)/fuzz/replay_export '$(O)/fuzz/named' tests/fuzz/corpus/export/*

.PHONY: fuzz fuzz-afl fuzzers unit-fuzz $(FUZZERS:%=fuzz-one-%)
