/* SPDX-License-Identifier: MIT */
/* Replacing names; see alias.h. */
#include "analyzer/exchange/alias.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/recording/basename.h"
#include "analyzer/recording/job.h"
#include "analyzer/stacks/owner.h"
#include "analyzer/stacks/owner_rules.h"

enum kind {
	HOST,
	JOB,
	BOOT_ID,
	PATH,
	FOLDER,
	FILE_NAME,
	FUNCTION,
	THREAD,
	DEVICE,
	UUID,
	PCI_BUS_ID,
	BUILD_ID,
	ENTRY,
	KEY,
	VALUE,
	NOTE,
	ARGUMENTS,
	RANGE,
	NAME,
	DOTTED,
	PROFILE,
};

enum keep { KEEP_PACKAGE, KEEP_FOLDER, KEEP_FILE_IN, KEEP_FILE, KEEP_METHOD };

static const struct {
	enum keep what;
	const char *folder, *pattern;
} keeps[] = {
#define PACKAGE(pattern) { KEEP_PACKAGE, NULL, pattern },
#define FOLDER(name) { KEEP_FOLDER, NULL, name },
#define FILE_IN(folder, pattern) { KEEP_FILE_IN, folder, pattern },
#define FILE_NAME(pattern) { KEEP_FILE, NULL, pattern },
#define METHOD(name) { KEEP_METHOD, NULL, name },
#include "analyzer/exchange/alias_keep.def"
#undef PACKAGE
#undef FOLDER
#undef FILE_IN
#undef FILE_NAME
#undef METHOD
};

/* Is a name one of those that stay? path: for KEEP_FILE_IN. */
static bool is_kept(enum keep what, const char *name, const char *path)
{
	for (size_t i = 0; i < sizeof(keeps) / sizeof(*keeps); i++)
		if (keeps[i].what == what && (!keeps[i].folder || strstr(path, keeps[i].folder)) &&
		    !fnmatch(keeps[i].pattern, name, 0))
			return true;
	return false;
}

static bool matches_any(const char *const *patterns, const char *name)
{
	for (; *patterns; patterns++)
		if (!fnmatch(*patterns, name, 0))
			return true;
	return false;
}

static bool begins_with(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* KIND-NUMBER for a text, made once. */
static const char *numbered(struct alias *a, unsigned kind, const char *name, const char *text)
{
	struct textset_member *m = textset_add(&a->set, kind, text, strlen(text));

	if (!m->replacement)
		m->replacement = textset_format("%s-%u", name, m->number);
	return m->replacement;
}

/* ---- hosts, jobs ----------------------------------------------------------------------------- */

void alias_host_order(struct alias *a, const char *const *hosts, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		textset_add(&a->set, HOST, hosts[i], strlen(hosts[i]));
	a->nr_hosts = a->set.nr_of_kind[HOST];
}

/* Of one width, so that they sort by number. */
const char *alias_host(struct alias *a, const char *host)
{
	struct textset_member *m = textset_add(&a->set, HOST, host, strlen(host));

	if (!m->replacement)
		m->replacement = textset_format("host-%0*u", snprintf(NULL, 0, "%u", a->nr_hosts), m->number);
	return m->replacement;
}

const char *alias_job(struct alias *a, const char *job)
{
	struct textset_member *m = textset_add(&a->set, JOB, job, strlen(job)), *own;
	unsigned run, of;
	size_t len = strlen(job);

	if (m->replacement || !len)
		return len ? m->replacement : "";
	if (job_run(job, &len, &run, &of)) {
		own = textset_add(&a->set, JOB, job, len);
		m->replacement = textset_format("job-%u.run%uof%u", own->number, run, of);
	} else {
		m->replacement = textset_format("job-%u", m->number);
	}
	return m->replacement;
}

void alias_boot_id(struct alias *a, uint8_t id[16])
{
	static const uint8_t none[16];
	unsigned number;

	if (!memcmp(id, none, 16))
		return;
	number = textset_add(&a->set, BOOT_ID, (const char *)id, 16)->number;
	memset(id, 0, 16);
	for (int i = 0; i < 4; i++)
		id[15 - i] = (uint8_t)(number >> 8 * i);
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* What names no file: [vdso], <string>, <frozen importlib._bootstrap>. */
static bool is_no_file(const char *path)
{
	static const char *const fixed[] = { "",        "[vdso]",   "[vsyscall]", "[heap]",
					     "[stack]", "<string>", "<stdin>",    "<simgpu values>" };

	for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++)
		if (!strcmp(path, fixed[i]))
			return true;
	return begins_with(path, "<frozen ") &&
	       strspn(path + 8, "abcdefghijklmnopqrstuvwxyz._") + 9 == strlen(path);
}

/* Where a path becomes that of a well-known package: "site-packages/..." in it; NULL: nowhere. */
static const char *package_part(const char *path)
{
	static const char *const roots[] = { "site-packages/", "dist-packages/" };

	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		size_t len = strlen(roots[i]);

		for (const char *at = path; (at = strstr(at, roots[i])); at++) {
			char package[64];

			snprintf(package, sizeof(package), "%.*s", (int)strcspn(at + len, "/"), at + len);
			if ((at == path || at[-1] == '/') && at[len + strlen(package)] == '/' &&
			    !strstr(at, "/../") && is_kept(KEEP_PACKAGE, package, NULL))
				return at;
		}
	}
	return NULL;
}

/* The ending that stays: ".so.1.2", or one that says what kind of file it is. */
static const char *ending_of(const char *name)
{
	static const char *const known[] = { ".py",  ".pyc", ".so", ".ipynb", ".c",   ".cc",
					     ".cpp", ".cu",  ".h",  ".sh",    ".toml" };
	const char *dot = strrchr(name, '.'), *so;

	for (so = strstr(name, ".so."); so; so = strstr(so + 1, ".so."))
		if (so[4] && strspn(so + 4, "0123456789.") == strlen(so + 4))
			return so;
	for (size_t i = 0; dot && i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(dot, known[i]))
			return dot;
	return "";
}

static bool is_known_file(const char *path, const char *name)
{
	return is_kept(KEEP_FILE, name, NULL) || is_kept(KEEP_FILE_IN, name, path) || owner_is_libc(name) ||
	       owner_rules_match(name, NULL, NULL) != OWNER_NO_RULE;
}

static char *file_alias(struct alias *a, const char *path, const char *name)
{
	struct textset_member *m;

	if (is_known_file(path, name))
		return textset_format("%s", name);
	m = textset_add(&a->set, FILE_NAME, name, strlen(name));
	return textset_format("file-%u%s", m->number, ending_of(name));
}

/* The folder of a path, up to and with its last slash: known parts as they are, what lies between by number.
 */
static char *folder_alias(struct alias *a, const char *path, size_t len)
{
	char *out = textset_format("%s", *path == '/' && len ? "/" : ""), *grown;
	bool in_run = false;

	for (size_t at = *path == '/', n; at < len; at += n + 1) {
		char part[256], number[32];
		struct textset_member *m;
		size_t end = at;

		n = strcspn(path + at, "/");
		snprintf(part, sizeof(part), "%.*s", (int)n, path + at);
		if (n < sizeof(part) && is_kept(KEEP_FOLDER, part, NULL)) {
			grown = textset_format("%s%s/", out, part);
			in_run = false;
		} else if (in_run) {
			continue;
		} else {
			/* The run of unknown parts goes as far as possible, and is one folder with all before
			 * it. */
			for (size_t next = at; next < len; next = end + 1) {
				size_t bytes = strcspn(path + next, "/");

				snprintf(part, sizeof(part), "%.*s", (int)bytes, path + next);
				if (bytes < sizeof(part) && is_kept(KEEP_FOLDER, part, NULL))
					break;
				end = next + bytes;
			}
			m = textset_add(&a->set, FOLDER, path, end);
			snprintf(number, sizeof(number), "path-%u", m->number);
			grown = textset_format("%s%s/", out, number);
			in_run = true;
		}
		free(out);
		out = grown;
	}
	return out;
}

static char *make_path(struct alias *a, const char *path, bool keep_name)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(path), tail = sizeof(deleted) - 1;
	bool is_deleted = len > tail && !strcmp(path + len - tail, deleted);
	char *plain = textset_format("%.*s", (int)(is_deleted ? len - tail : len), path), *folder, *file,
	     *out;
	const char *kept = package_part(plain), *name = basename_of(plain);

	folder = folder_alias(a, plain, (size_t)((kept ? kept : name) - plain));
	file = kept || keep_name ? textset_format("%s", kept ? kept : name) : file_alias(a, plain, name);
	out = textset_format("%s%s%s", folder, file, is_deleted ? deleted : "");
	free(plain);
	free(folder);
	free(file);
	return out;
}

const char *alias_path(struct alias *a, const char *path)
{
	struct textset_member *m = textset_add(&a->set, PATH, path, strlen(path));

	if (m->replacement)
		return m->replacement;
	if (is_no_file(path)) {
		m->replacement = textset_format("%s", path);
		return m->replacement;
	}
	m->replacement = make_path(a, path, false);
	/* A rule that goes by the whole path names this file: it must go on doing so. */
	if (owner_rules_match(path, NULL, NULL) != owner_rules_match(m->replacement, NULL, NULL)) {
		free(m->replacement);
		m->replacement = make_path(a, path, true);
	}
	return m->replacement;
}

/* ---- code ------------------------------------------------------------------------------------ */

static const char *function_alias(struct alias *a, const char *name, const char *file)
{
	static const char *const fixed[] = { "",           "<module>",  "<lambda>", "<listcomp>",
					     "<dictcomp>", "<setcomp>", "<genexpr>" };
	const char *last = strrchr(name, '.');
	struct textset_member *m;
	bool has_phase = strstr(file, "/torch/nn/") || strstr(file, "/torch/optim/") ||
			 strstr(file, "/amp/grad_scaler.py");

	for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++)
		if (!strcmp(name, fixed[i]))
			return fixed[i];
	if (package_part(file) || begins_with(file, "<frozen ") || !strcmp(file, "<simgpu values>"))
		return name;
	last = last ? last + 1 : name;
	if (!has_phase || !is_kept(KEEP_METHOD, last, NULL))
		return numbered(a, FUNCTION, "function", name);
	m = textset_add(&a->set, FUNCTION, name, strlen(name));
	if (!m->replacement)
		m->replacement = textset_format("function-%u.%s", m->number, last);
	return m->replacement;
}

static const char *build_id_alias(struct alias *a, const char *id, const char *path)
{
	struct textset_member *m;

	if (!*id || package_part(path) || is_known_file(path, basename_of(path)))
		return id;
	m = textset_add(&a->set, BUILD_ID, id, strlen(id));
	if (!m->replacement)
		m->replacement = textset_format("%040x", m->number);
	return m->replacement;
}

/* An entry point of CUDA or NCCL, or an owner of modelled memory, with what follows after a comma. */
static const char *entry_alias(struct alias *a, const char *name)
{
	static const char *const known[] = { "cu[A-Z]*", "cuda[A-Z_]*", "__cuda[A-Z]*", "nccl[A-Z]*", NULL };
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	size_t len = strspn(name, letters);
	unsigned number, of;
	int used = 0;
	bool is_known = owner_named(name) != OWNER_UNKNOWN || begins_with(name, "local_memory") ||
			matches_any(known, name);

	if (is_known && (sscanf(name + len, ", communicator %u of %u ranks%n", &number, &of, &used) == 2 ||
			 sscanf(name + len, ", communicator %u%n", &number, &used) == 1))
		len += (size_t)used;
	return is_known && !name[len] ? name : numbered(a, ENTRY, "call", name);
}

static const char *thread_alias(struct alias *a, const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz_");

	if (!*name || (begins_with(name, "pt_") && strspn(name + len, "0123456789") == strlen(name + len)))
		return name;
	return numbered(a, THREAD, "thread", name);
}

static const char *device_alias(struct alias *a, const char *name)
{
	static const char *const makers[] = { "",         "NVIDIA *", "Tesla *", "GeForce *",
					      "Quadro *", "AMD *",    NULL };

	return matches_any(makers, name) ? name : numbered(a, DEVICE, "model", name);
}

bool alias_is_torch_node(const char *name)
{
	static const char *const fixed[] = { "AccumulateGrad",
					     "CopySlices",
					     "GraphRoot",
					     "UndefinedGrad",
					     "torch::autograd::AccumulateGrad",
					     "torch::autograd::CopySlices",
					     "torch::autograd::GraphRoot",
					     "torch::autograd::UndefinedGrad",
					     NULL };
	size_t word = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	size_t digits = word;

	/* The number tells it from the class of a user's autograd.Function. */
	while (digits && isdigit((unsigned char)name[digits - 1]))
		digits--;
	return matches_any(fixed, name) ||
	       (!name[word] && digits < word && digits > 8 && !strncmp(name + digits - 8, "Backward", 8));
}

/* Words and figures of the allocator's settings; anything else may be anything. */
static bool is_allocator_conf(const char *text)
{
	static const char *const words[] = { "backend",
					     "native",
					     "cudaMallocAsync",
					     "max_split_size_mb",
					     "max_non_split_rounding_mb",
					     "roundup_power2_divisions",
					     "roundup_bypass_threshold_mb",
					     "garbage_collection_threshold",
					     "expandable_segments",
					     "release_lock_on_cudamalloc",
					     "pinned_use_cuda_host_register",
					     "pinned_num_register_threads",
					     "pinned_use_background_threads",
					     "graph_capture_record_stream_reuse",
					     "per_process_memory_fraction",
					     "large_segment_size_mb",
					     "pinned_reserve_segment_size_mb",
					     "true",
					     "false",
					     "True",
					     "False",
					     NULL };
	char word[64];

	while (*text) {
		size_t n = strcspn(text, ":,[]>; ");

		snprintf(word, sizeof(word), "%.*s", (int)n, text);
		if (n >= sizeof(word) || (strspn(word, "0123456789.") != n && !matches_any(words, word)))
			return false;
		text += n + (text[n] != 0);
	}
	return true;
}

/* Settings of PyTorch's allocator, or PyTorch's own mark, are no range of the program's. */
static const char *string_alias(struct alias *a, const char *text)
{
	bool is_settings = strchr(text, ':') && is_allocator_conf(text);

	return !*text || is_settings || !strcmp(text, "PythonDispatchMode") ? text : numbered(a, RANGE, "range", text);
}

/*
 * What objects of a program are called, between dots: variables, attributes, keys, classes, functions. By these few words it
 * is known what a tensor is for; figures are places in a list.
 */
static const char *word_alias(struct alias *a, const char *text)
{
	static const char *const known[] = { "_modules", "_parameters", "_buffers",  "__dict__", "state", "grad",
					     "self",     "__main__",    "<module>",  "param_groups", "params", "dict",
					     "list",     "tuple",       "set",       "deque",    "Tensor", "Parameter",
					     "weight",   "bias",        "exp_avg",   "exp_avg_sq", "momentum_buffer", NULL };

	if (!*text || (strspn(text, "0123456789") == strlen(text) && strlen(text) <= 5) || matches_any(known, text))
		return text;
	return numbered(a, NAME, "name", text);
}

/* The same of "layers.3.kv", so that what is alike but for figures stays so; and files. */
static const char *object_alias(struct alias *a, const char *text)
{
	struct textset_member *m;
	char *all, *word, *rest, *parts;

	if (strchr(text, '/'))
		return alias_path(a, text);
	if (!strchr(text, '.'))
		return word_alias(a, text);
	m = textset_add(&a->set, DOTTED, text, strlen(text));
	if (m->replacement)
		return m->replacement;
	all = textset_format("%s", "");
	parts = rest = textset_format("%s", text);
	while ((word = strsep(&rest, ".")) != NULL) {
		char *longer = textset_format("%s%s%s", all, word > parts ? "." : "", word_alias(a, word));

		free(all);
		all = longer;
	}
	free(parts);
	m->replacement = all;
	return all;
}

/* ---- facts ----------------------------------------------------------------------------------- */

static bool is_figure(const char *text)
{
	return strspn(text, "0123456789,.-") == strlen(text);
}

/* Names: the program's may be an interpreter's, the script's is the base name of its file. */
static const char *name_alias(struct alias *a, const char *name)
{
	struct textset_member *m;

	if (!*name || (begins_with(name, "python") && is_figure(name + 6)))
		return name;
	m = textset_add(&a->set, FILE_NAME, name, strlen(name));
	if (!m->replacement)
		m->replacement = textset_format("file-%u%s", m->number, ending_of(name));
	return m->replacement;
}

static const char chained[] = "chained to ";

/* Another tool that hears ranges, by its file. */
static const char *chained_alias(struct alias *a, const char *value)
{
	struct textset_member *m = textset_add(&a->set, VALUE, value, strlen(value));

	if (!m->replacement)
		m->replacement = textset_format("%s%s", chained, alias_path(a, value + sizeof(chained) - 1));
	return m->replacement;
}

/* A profile of the simulated GPU: h100, a100-80, l40s; a GPU file may be called anything. */
static bool is_profile(const char *name)
{
	size_t letters = strspn(name, "abcdefghijklmnopqrstuvwxyz"),
	       digits = strspn(name + letters, "0123456789");

	if (!letters || letters > 3 || !digits)
		return false;
	name += letters + digits;
	name += *name == 's';
	return !*name || (*name == '-' && name[1] && is_figure(name + 1));
}

static const char *info_alias(struct alias *a, const char *key, const char *value)
{
	static const char *const sentences[] = { "python_frames",     "unwinder", "tracker",	"cupti",
						 "unwinder_compared", "keep",	    "keep_failed", NULL };
	static const char *const chosen[] = { "on",     "off",       "python",    "full", "none",
					      "beside", "temporary", "anonymous", NULL };

	if (!strcmp(key, "program") || !strcmp(key, "script"))
		return name_alias(a, value);
	if (!strcmp(key, "exe"))
		return alias_path(a, value);
	if (!strcmp(key, "job"))
		return alias_job(a, value);
	if (!strcmp(key, "note"))
		return numbered(a, NOTE, "note", value);
	if (!strcmp(key, "argv"))
		return numbered(a, ARGUMENTS, "arguments", value);
	if (is_figure(value) || matches_any(chosen, value))
		return value;
	if (!strcmp(key, "simulated"))
		return is_profile(value) ? value : numbered(a, PROFILE, "gpu", value);
	if (!strcmp(key, "torch") && isdigit((unsigned char)*value) && !strpbrk(value, "/ "))
		return value;
	if (!strcmp(key, "allocator_conf") && is_allocator_conf(value))
		return value;
	/* The recorder's own words name files and what others said only after a slash or in quotes. */
	if (matches_any(sentences, key) && !strpbrk(value, "/'\""))
		return value;
	if (!strcmp(key, "nvtx") && begins_with(value, chained))
		return chained_alias(a, value);
	return numbered(a, VALUE, "value", value);
}

static const char *key_alias(struct alias *a, const char *key)
{
	static const char *const known[] = { "program",    "script",        "exe",       "argv",
					     "python",     "python_frames", "torch",     "allocator_conf",
					     "stacks",     "simulated",     "storage",   "rank",
					     "local_rank", "world_size",    "ranks_run", "job",
					     "unwinder",   "note",          "nvtx",      "tracker",
					     "cupti",      "cupti.[a-z]*",  "keep",      "keep_failed",
					     "unwinder_compared", "names", "names.[a-z]*", NULL };
	static const char unsupported[] = "unsupported.";

	if (matches_any(known, key))
		return key;
	if (begins_with(key, unsupported) &&
	    entry_alias(a, key + sizeof(unsupported) - 1) == key + sizeof(unsupported) - 1)
		return key;
	return numbered(a, KEY, "key", key);
}

/* ---- definitions ----------------------------------------------------------------------------- */

static const char *replacement(struct alias *a, enum tfmt_text_kind kind, char *const text[], int i, bool of_census)
{
	const char *s = text[i];

	switch (kind) {
	case TFMT_TEXT_CODE_NAME:
		return function_alias(a, s, text[i + 1]);
	case TFMT_TEXT_CODE_FILE:
	case TFMT_TEXT_MODULE_PATH:
	case TFMT_TEXT_RING_PATH:
		return alias_path(a, s);
	case TFMT_TEXT_BUILD_ID:
		return build_id_alias(a, s, text[i - 1]);
	case TFMT_TEXT_THREAD:
		return thread_alias(a, s);
	case TFMT_TEXT_DEVICE:
		return device_alias(a, s);
	case TFMT_TEXT_UUID:
		return *s ? numbered(a, UUID, "uuid", s) : s;
	case TFMT_TEXT_PCI_BUS_ID:
		return *s ? numbered(a, PCI_BUS_ID, "pci", s) : s;
	case TFMT_TEXT_FUNCTION:
		return entry_alias(a, s);
	case TFMT_TEXT_INFO_KEY:
		return key_alias(a, s);
	case TFMT_TEXT_INFO_VALUE:
		return info_alias(a, text[i - 1], s);
	case TFMT_TEXT_STRING:
		return of_census ? object_alias(a, s) : string_alias(a, s);
	case TFMT_TEXT_CLASS:
		return object_alias(a, s);
	case TFMT_TEXT_HOST:
		return alias_host(a, s);
	default:
		return alias_job(a, s);
	}
}

static void replace_all(struct alias *a, struct tfmt_text *text, int nr, bool of_census)
{
	char *original[TFMT_DEFINITION_TEXTS];

	for (int i = 0; i < nr; i++)
		original[i] = textset_format("%.*s", (int)text[i].len, text[i].s ? text[i].s : "");
	for (int i = 0; i < nr; i++) {
		const char *with = replacement(a, text[i].kind, original, i, of_census);

		/* What stays is what the payload has; but for what lay after a zero byte. */
		text[i].len = strlen(with);
		if (with != original[i] && strcmp(with, original[i]))
			text[i].s = with;
	}
	for (int i = 0; i < nr; i++)
		free(original[i]);
}

void alias_texts(struct alias *a, struct tfmt_text *text, int nr)
{
	replace_all(a, text, nr, false);
}

void alias_census_texts(struct alias *a, struct tfmt_text *text, int nr)
{
	replace_all(a, text, nr, true);
}

void alias_release(struct alias *a)
{
	textset_release(&a->set);
}
