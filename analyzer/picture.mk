# SPDX-License-Identifier: MIT
# The page of `html`: the files of analyzer/picture/page/ and d3, as Debian has it, joined into what stands before the
# data and what stands after.

PAGE := analyzer/picture/page
D3 ?= /usr/share/nodejs/d3/dist/d3.min.js
D3_LICENSE ?= /usr/share/doc/node-d3/copyright
PAGE_SCRIPTS := $(filter-out $(PAGE)/main.js,$(sort $(wildcard $(PAGE)/*.js))) $(PAGE)/main.js

$(D3) $(D3_LICENSE):
	$(error '$@' is missing: install node-d3, or let root run 'make setup')

$(O)/gen/page_before.html: $(PAGE)/begin.html $(PAGE)/page.css $(PAGE)/body.html
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q){ cat $(PAGE)/begin.html; echo '<style>'; cat $(PAGE)/page.css; echo '</style>'; cat $(PAGE)/body.html; \
		printf '<script type="application/gzip" id="data">'; } >$@

# A licence may hold characters that mean something in HTML.
$(O)/gen/page_after.html: $(PAGE_SCRIPTS) $(D3) $(D3_LICENSE)
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q){ echo '</script>'; printf '<script type="text/plain" id="licence">'; \
		sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g' $(D3_LICENSE); echo '</script>'; \
		echo '<script>'; cat $(D3); echo '</script>'; \
		echo '<script>"use strict"; (() => {'; cat $(PAGE_SCRIPTS); echo '})();</script></body></html>'; } >$@

# Fuzzers have objects of their own (tests/fuzz/fuzz.mk).
WEBPAGE_OBJECTS := $(addsuffix analyzer/picture/webpage.o,$(O)/ $(O)/fuzz/ $(O)/fuzz-afl/)
$(WEBPAGE_OBJECTS): private override CPPFLAGS += -DPAGE_BEFORE='"$(O)/gen/page_before.html"' \
	-DPAGE_AFTER='"$(O)/gen/page_after.html"'
$(WEBPAGE_OBJECTS): $(O)/gen/page_before.html $(O)/gen/page_after.html
