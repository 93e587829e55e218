# SPDX-License-Identifier: MIT
# Fuzzers: one program per tests/fuzz/fuzz_*.c, with libFuzzer (clang), AddressSanitizer and UBSan. What they found, and
# the small inputs they start from, lie in tests/fuzz/corpus/NAME/; every `unit` reads them with the build at hand.

TIME ?= 60
FUZZERS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SRC := $(filter-out tests/fuzz/fuzz_%.c tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c)) $(TFMT_SRC)
FUZZ_LIBS := -lzstd -lxxhash
FUZZ_FLAGS := -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all

$(O)/fuzz/%: tests/fuzz/fuzz_%.c $(FUZZ_SRC)
	@mkdir -p $(@D)
	$(call say,CLANG,$@)
	$(Q)clang $(CPPFLAGS) -std=gnu11 $(WARN) $(FUZZ_FLAGS) -o $@ $(filter %.c,$^) $(FUZZ_LIBS)

## fuzz: run every fuzzer for TIME seconds (60), on new inputs in the build folder; needs clang
fuzz: $(FUZZERS:%=$(O)/fuzz/%)
	$(Q)for f in $(FUZZERS); do echo "  FUZZ  $$f"; mkdir -p $(O)/fuzz/inputs/$$f tests/fuzz/corpus/$$f; \
		$(O)/fuzz/$$f -max_total_time=$(TIME) -print_final_stats=1 -artifact_prefix=$(O)/fuzz/$$f- \
		$(O)/fuzz/inputs/$$f tests/fuzz/corpus/$$f 2>$(O)/fuzz/$$f.log || { cat $(O)/fuzz/$$f.log; exit 1; }; \
		grep -E 'DONE|number_of_executed' $(O)/fuzz/$$f.log; done

# The corpus, once, by whatever compiler and sanitizers this build has.
$(O)/fuzz/replay_%: $(O)/tests/fuzz/fuzz_%.o $(O)/tests/fuzz/replay.o $(O)/tests/fuzz/reader_input.o $(O)/libtracefmt.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $^ $(LDFLAGS) $(FUZZ_LIBS)

unit: unit-fuzz

unit-fuzz: $(FUZZERS:%=$(O)/fuzz/replay_%)
	$(Q)for f in $(FUZZERS); do echo "  TEST  corpus of fuzz_$$f"; \
		$(O)/fuzz/replay_$$f tests/fuzz/corpus/$$f/* || exit 1; done

.PHONY: fuzz unit-fuzz
