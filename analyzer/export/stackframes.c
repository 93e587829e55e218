/* SPDX-License-Identifier: MIT */
/* Frames with names, each text and each frame kept once. */
#include "analyzer/export/stackframes.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

enum { TEXT_NAME, TEXT_FILE };

void frames_clear(struct frames *f)
{
	f->nr_frames = 0;
}

void frames_add(struct frames *f, const char *name, const char *file, uint32_t line)
{
	const struct textset_member *names = textset_add(&f->texts, TEXT_NAME, name, strlen(name));
	const struct textset_member *files = file ? textset_add(&f->texts, TEXT_FILE, file, strlen(file)) : NULL;
	struct frame *frame;

	f->frame = heap_grow(f->frame, &f->room, f->nr_frames + 1, sizeof(*f->frame));
	frame = &f->frame[f->nr_frames++];
	*frame = (struct frame){ .name = names->text,
				 .file = files ? files->text : NULL,
				 .line = line,
				 .name_number = names->number,
				 .file_number = files ? files->number : 0 };
	frame->number = 1 + keyset_add(&f->numbers, (struct keyset_key){ { frame->name_number, frame->file_number, line } },
				      &frame->is_new);
}

/* A frame with a function is called after that; others as `dump` and `peak` show them. */
static void add_recorded(struct frames *f, const struct stack_frame *s)
{
	struct stack_frame shown = *s;
	char text[1024];

	if (s->function && !s->cut && !s->node) {
		frames_add(f, s->function, s->file ? s->file : s->module, s->line);
		return;
	}
	if (!s->python)
		shown.file = NULL;
	frames_add(f, stack_frame_text(text, sizeof(text), &shown), s->file ? s->file : s->module, s->line);
}

void frames_expand(struct frames *f, const struct stack_source *source, uint32_t python, uint32_t native)
{
	stack_expand(&f->stack, source, python, native);
	for (uint32_t i = f->stack.nr_frames; i-- > 0;)
		add_recorded(f, &f->stack.frame[i]);
}

void frames_release(struct frames *f)
{
	free(f->frame);
	textset_release(&f->texts);
	keyset_release(&f->numbers);
	stack_release(&f->stack);
	*f = (struct frames){ 0 };
}
