# SPDX-License-Identifier: MIT
# The recorder as it is preloaded, but instrumented, for test_sanitized.py: programs that are instrumented likewise
# load it. Never installed.

SANITIZED_SRC := $(IP_SRC) $(TFMT_SRC)
SANITIZED := $(O)/sanitized-thread/libinterpose.so $(O)/sanitized-address/libinterpose.so

$(O)/sanitized-thread/%: SANITIZE := -fsanitize=thread -fno-omit-frame-pointer
$(O)/sanitized-address/%: SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

# The sanitizers' runtimes call dlsym and its like before they can serve what is instrumented: those stay the loader's.
$(O)/sanitized.map: $(O)/preload/exports.map
	$(Q)grep -v '^dl' $< >$@

define SANITIZED_RULES
$(O)/sanitized-$(1)/%.o: %.c $(O)/flags.key
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< ($(1))')
	$$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(PRELOAD_CFLAGS) $$(SANITIZE) $$(CUDA_CFLAGS) -MMD -MP -c -o $$@ $$<

$(O)/sanitized-$(1)/libinterpose.so: $(SANITIZED_SRC:%.c=$(O)/sanitized-$(1)/%.o) $(O)/sanitized.map
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(CFLAGS) $$(SANITIZE) -shared -Wl,-soname,libinterpose.so -o $$@ $$(filter %.o,$$^) $$(LDFLAGS) \
		-Wl,-Bsymbolic-functions -Wl,--exclude-libs,ALL -Wl,--version-script=$(O)/sanitized.map \
		-l:libzstd.a -lpthread -ldl
endef
$(foreach kind,thread address,$(eval $(call SANITIZED_RULES,$(kind))))

sanitized: $(SANITIZED)
test-all: sanitized
.PHONY: sanitized
