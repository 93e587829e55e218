/* SPDX-License-Identifier: MIT */
/* Keys, scrolling and drawing. Curses is used here alone. */
#include "analyzer/livepages/livescreen.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NCURSES_NOMACROS
#include <curses.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/livepages/livepage.h"
#include "analyzer/livepages/sparkline.h"

#define LOOK_MS 1000
#define HOLDERS_SHOWN 8
#define FIXED_LINES 2 /* the first and the last */

struct screen {
	struct live *live;
	struct livealert *alert;
	struct livepage page;
	size_t selected; /* index of the row */
	size_t top;      /* the first line of the page on the screen */
	bool is_paused;
	bool colored;
	char alert_text[256]; /* the latest alert, "" = none */
};

static attr_t attribute_of(const struct screen *s, enum term_style style)
{
	switch (style) {
	case TERM_BOLD:
		return A_BOLD;
	case TERM_DIM:
		return A_DIM;
	case TERM_PLAIN:
		return A_NORMAL;
	default:
		return s->colored ? (attr_t)COLOR_PAIR((int)style - TERM_RED + 1) : A_NORMAL;
	}
}

static void start_colors(struct screen *s)
{
	static const short colors[] = { COLOR_RED, COLOR_GREEN, COLOR_YELLOW, COLOR_BLUE, COLOR_MAGENTA, COLOR_CYAN };

	s->colored = term_wants_color(stdout, TERM_COLOR_AUTO) && has_colors();
	if (!s->colored)
		return;
	start_color();
	use_default_colors();
	for (short i = 0; i < (short)(sizeof(colors) / sizeof(colors[0])); i++)
		init_pair((short)(i + 1), colors[i], -1);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void draw_line(const struct screen *s, int y, enum term_style style, char *text)
{
	livepage_cut(text, COLS);
	attrset((int)attribute_of(s, style));
	mvaddstr(y, 0, text);
	attrset(A_NORMAL);
}

static void draw_title(const struct screen *s)
{
	const char *state = s->is_paused ? "   paused" : live_is_over(s->live) ? "   all have ended" : "";
	time_t now = time(NULL);
	char text[512], clock[16];
	struct tm tm;

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &tm));
	snprintf(text, sizeof(text), "vramtrace top  %s   by %s%s%s%s", clock, live_sort_names[s->live->sort], state,
		 *s->alert_text ? "   " : "", s->alert_text);
	draw_line(s, 0, *s->alert_text ? TERM_RED : TERM_BOLD, text);
}

/* What is selected is on the screen, from its first line on. */
static void scroll_to_selected(struct screen *s, size_t room)
{
	size_t nr = s->page.nr_lines;

	if (s->page.end_selected > s->top + room)
		s->top = s->page.end_selected - room;
	if (s->page.first_selected < s->top)
		s->top = s->page.first_selected;
	if (nr <= room || !s->selected)
		s->top = 0;
	else if (s->top > nr - room)
		s->top = nr - room;
}

static void draw(struct screen *s)
{
	struct livepage_view view = { COLS, term_has_utf8(), s->selected, HOLDERS_SHOWN };
	size_t room = LINES > FIXED_LINES ? (size_t)(LINES - FIXED_LINES) : 0;
	char help[] = "q quit   up, down select   s sort   space pause";

	livepage_make(&s->page, s->live, &view);
	scroll_to_selected(s, room);
	erase();
	draw_title(s);
	for (size_t i = 0; i < room && s->top + i < s->page.nr_lines; i++)
		draw_line(s, (int)i + 1, s->page.line[s->top + i].style, s->page.line[s->top + i].text);
	if (room)
		draw_line(s, LINES - 1, TERM_DIM, help);
	refresh();
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* False: the user has seen enough. */
static bool take_key(struct screen *s, int key)
{
	size_t nr = s->live->nr_rows;

	switch (key) {
	case 'q':
	case 'Q':
		return false;
	case KEY_DOWN:
	case 'j':
		s->selected += s->selected + 1 < nr;
		break;
	case KEY_UP:
	case 'k':
		s->selected -= s->selected > 0;
		break;
	case KEY_HOME:
		s->selected = 0;
		break;
	case KEY_END:
		s->selected = nr ? nr - 1 : 0;
		break;
	case 's':
		s->live->sort = (s->live->sort + 1) % NR_LIVE_SORTS;
		live_sort(s->live);
		break;
	case ' ':
		s->is_paused = !s->is_paused;
		break;
	default:
		break; /* a resize among them: it is drawn anew */
	}
	return true;
}

static void say_alert(void *ctx, const struct liverow *r, double share)
{
	struct screen *s = ctx;
	char percent[HUMAN_MAX];

	snprintf(s->alert_text, sizeof(s->alert_text), "alert: GPU %u of process %u was at %s", r->device->ordinal,
		 r->process->header->pid, human_percent(percent, share, 1));
	beep();
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void look(struct screen *s)
{
	live_look(s->live);
	if (s->selected >= s->live->nr_rows)
		s->selected = s->live->nr_rows ? s->live->nr_rows - 1 : 0;
	livealert_check(s->alert, s->live, say_alert, s);
}

static void loop(struct screen *s)
{
	int64_t next = now_ms() + LOOK_MS;
	bool goes_on = true;

	livealert_check(s->alert, s->live, say_alert, s);
	while (goes_on) {
		int64_t left = next - now_ms();
		int key;

		draw(s);
		timeout(left > 0 ? (int)left : 0);
		key = getch();
		goes_on = key == ERR || take_key(s, key);
		if (now_ms() < next)
			continue;
		if (!s->is_paused && goes_on)
			look(s);
		next = now_ms() + LOOK_MS;
	}
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Warnings would be written over the page: they wait. Returns where stderr was, -1: it stays. */
static int hold_messages(int *held)
{
	int before = dup(STDERR_FILENO);

	*held = memfd_create("messages", MFD_CLOEXEC);
	if (*held < 0 || before < 0 || dup2(*held, STDERR_FILENO) < 0) {
		close(before);
		return -1;
	}
	return before;
}

static void show_messages(int before, int held)
{
	char text[4096];
	ssize_t n;

	if (before < 0)
		return;
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	close(before);
	for (off_t at = 0; (n = pread(held, text, sizeof(text), at)) > 0; at += n)
		if (write(STDERR_FILENO, text, (size_t)n) < 0)
			break;
	close(held);
}

int livescreen_run(struct live *l, struct livealert *a)
{
	struct screen s = { .live = l, .alert = a };
	const char *terminal = getenv("TERM");
	int held, before;
	SCREEN *screen;

	setlocale(LC_CTYPE, "");
	/* The size is what the terminal says: LINES and COLUMNS of the environment do not follow a resize. */
	unsetenv("LINES");
	unsetenv("COLUMNS");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return message_error("terminal '%s' is not known to curses; '--once' prints the page as text",
				     terminal ? terminal : "");
	before = hold_messages(&held);
	start_colors(&s);
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	a->is_quiet = true;
	loop(&s);
	endwin();
	delscreen(screen);
	show_messages(before, held);
	livepage_release(&s.page);
	return CMD_FINE;
}
