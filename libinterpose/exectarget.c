/* SPDX-License-Identifier: MIT */
/* Which programs are started without us; see exectarget.h. */
#include "exectarget.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose.h"

#define SCRIPT_DEPTH 4 /* as many as the kernel follows */
#define HEAD_BYTES 256 /* of a file; longer first lines are cut, as by the kernel */

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#endif

#define PRELOAD "LD_PRELOAD="
#define INJECTION "NVTX_INJECTION64_PATH="

/* ---- the file --------------------------------------------------------------------------------- */

/* Does its loader belong to musl? A program without a loader ignores us, and what it starts may yet be recorded. */
static bool has_other_libc(int fd, const Elf64_Ehdr *eh)
{
	char loader[HEAD_BYTES];
	Elf64_Phdr ph;
	ssize_t n;

	for (unsigned i = 0; i < eh->e_phnum && eh->e_phentsize == sizeof(ph); i++) {
		if (pread(fd, &ph, sizeof(ph), (off_t)(eh->e_phoff + i * sizeof(ph))) != sizeof(ph))
			return false;
		if (ph.p_type != PT_INTERP)
			continue;
		n = pread(fd, loader, ph.p_filesz < sizeof(loader) ? ph.p_filesz : sizeof(loader) - 1, (off_t)ph.p_offset);
		loader[n > 0 ? n - (n == sizeof(loader)) : 0] = 0;
		return strstr(loader, "/ld-musl-") != NULL;
	}
	return false;
}

static bool is_foreign(int fd, const unsigned char *head, ssize_t n)
{
	Elf64_Ehdr eh;

	if (n < (ssize_t)sizeof(eh) || memcmp(head, ELFMAG, SELFMAG))
		return false;
	memcpy(&eh, head, sizeof(eh));
	return eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_machine != OUR_MACHINE || has_other_libc(fd, &eh);
}

/* The interpreter in "#!/path argument", in place; NULL if it is no script. */
static const char *interpreter_of(char *head, ssize_t n)
{
	char *path = head + 2;

	if (n < 3 || head[0] != '#' || head[1] != '!')
		return NULL;
	head[n] = 0;
	path += strspn(path, " \t");
	path[strcspn(path, " \t\n")] = 0;
	return *path ? path : NULL;
}

static bool refuses(int folder, const char *path, unsigned depth)
{
	char head[HEAD_BYTES + 1];
	const char *interpreter;
	struct stat st;
	int fd = path ? openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : folder;
	bool refused;
	ssize_t n;

	if (fd < 0) /* may be executed and not be read: such are mostly setuid */
		return path && !fstatat(folder, path, &st, 0) && st.st_mode & (S_ISUID | S_ISGID);
	n = fstat(fd, &st) || !S_ISREG(st.st_mode) ? 0 : pread(fd, head, HEAD_BYTES, 0);
	refused = n > 0 && (st.st_mode & (S_ISUID | S_ISGID) || is_foreign(fd, (unsigned char *)head, n));
	interpreter = refused ? NULL : interpreter_of(head, n);
	if (path)
		close(fd);
	return refused || (interpreter && depth < SCRIPT_DEPTH && refuses(AT_FDCWD, interpreter, depth + 1));
}

bool ip_target_refuses(int folder, const char *path)
{
	int saved = errno;
	bool refused = refuses(folder, path, 0);

	errno = saved;
	return refused;
}

bool ip_target_named_refuses(const char *file)
{
	const char *at = getenv("PATH");
	char path[PATH_MAX];
	int saved = errno;
	bool refused = false;

	if (!at || strchr(file, '/'))
		return ip_target_refuses(AT_FDCWD, file);
	for (; *at; at += *at == ':') {
		size_t len = strcspn(at, ":");
		int n = snprintf(path, sizeof(path), "%.*s%s%s", (int)len, at, len ? "/" : "", file);

		at += len;
		if (n < 0 || n >= (int)sizeof(path) || access(path, X_OK))
			continue;
		refused = ip_target_refuses(AT_FDCWD, path);
		break;
	}
	errno = saved;
	return refused;
}

/* ---- the environment -------------------------------------------------------------------------- */

static bool is_ours(const char *path, size_t len)
{
	static const char *const ours[] = { "/libinterpose.so", "/libsimgpu.so" };

	for (unsigned i = 0; i < 2; i++) {
		size_t n = strlen(ours[i]);

		if (len >= n && !memcmp(path + len - n, ours[i], n))
			return true;
	}
	return false;
}

/* The entries of LD_PRELOAD that are not ours, at out if that is not NULL. Returns whether any is ours. */
static bool copy_others(char *out, const char *list)
{
	bool found = false;

	while (*list) {
		size_t len = strcspn(list, " :");

		if (is_ours(list, len)) {
			found = true;
		} else if (len && out) {
			if (out[-1] != '=')
				*out++ = ':';
			memcpy(out, list, len);
			out += len;
		}
		list += len + (list[len] != 0);
	}
	if (out)
		*out = 0;
	return found;
}

static const char *value_of(const char *entry, const char *name)
{
	return strncmp(entry, name, strlen(name)) ? NULL : entry + strlen(name);
}

size_t ip_target_room(char *const envp[])
{
	size_t nr = 1, text = 0;
	bool found = false;

	for (; envp && envp[nr - 1]; nr++) {
		const char *preload = value_of(envp[nr - 1], PRELOAD), *injection = value_of(envp[nr - 1], INJECTION);

		text += preload ? strlen(envp[nr - 1]) + 1 : 0;
		found |= (preload && copy_others(NULL, preload)) || (injection && is_ours(injection, strlen(injection)));
	}
	return found ? nr * sizeof(char *) + text : 0;
}

char **ip_target_strip(void *room, char *const envp[])
{
	char **out = room, *text;
	size_t nr = 0, n = 0;

	while (envp[nr])
		nr++;
	text = (char *)(out + nr + 1);
	for (size_t i = 0; i < nr; i++) {
		const char *preload = value_of(envp[i], PRELOAD), *injection = value_of(envp[i], INJECTION);

		if (injection && is_ours(injection, strlen(injection)))
			continue;
		out[n] = envp[i];
		if (preload) {
			memcpy(text, PRELOAD, strlen(PRELOAD));
			copy_others(text + strlen(PRELOAD), preload);
			out[n] = text;
			text += strlen(envp[i]) + 1;
			if (!out[n][strlen(PRELOAD)])
				continue;
		}
		n++;
	}
	out[n] = NULL;
	return out;
}
