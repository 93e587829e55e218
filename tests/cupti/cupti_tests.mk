# SPDX-License-Identifier: MIT
# What the recorder makes of what CUPTI tells it, without CUPTI: the test plays both the library and the recorder.

CUPTI_TEST := $(O)/tests/cupti/test_cupti_told

$(CUPTI_TEST).o: private CFLAGS += $(CUDA_CFLAGS)

$(CUPTI_TEST): $(CUPTI_TEST).o
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $< $(LDFLAGS) -lcmocka -lpthread

unit: unit-cupti

unit-cupti: $(CUPTI_TEST)
	$(Q)echo "  TEST  $<" && $<

.PHONY: unit-cupti
