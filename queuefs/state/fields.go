package state

import (
	"fmt"
	"time"

	"cutie/queuefs"
)

// The methods here go over the fields of a state in the order of its class. They write them,
// or, if b.from is set, read them from that document, in which an absent property is zero. So
// there is one list of fields for both directions. The first error stays in b.err.

// reader returns a builder that reads a document.
func reader(d *Document) *builder { return &builder{from: d} }

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// ref writes a reference that says nothing new, and is not read.
func (b *builder) ref(name string, base Base, segments ...string) {
	if b.from == nil {
		b.composed(name, base.Append(b.buf, segments...))
	}
}

// str is a text; absent stands for the empty one, which is left out if that is "".
func (b *builder) str(name string, s *string, absent string) {
	switch {
	case b.from != nil:
		if *s = b.from.Text(name); *s == absent {
			*s = ""
		}
	case *s == "":
		b.optional(name, absent)
	default:
		b.text(name, *s)
	}
}

// always is a text that is written even when it is empty.
func (b *builder) always(name string, s *string) {
	if b.from != nil {
		*s = b.from.Text(name)
	} else {
		b.text(name, *s)
	}
}

// num is a number.
func num[T ~int | ~int64 | ~uint64](b *builder, name string, n *T) {
	if b.from != nil {
		*n = T(b.from.integer(name, 0))
	} else {
		b.integer(name, int64(*n))
	}
}

// count is a number that is left out if it is 0.
func (b *builder) count(name string, n *int) {
	if b.from != nil || *n > 0 {
		num(b, name, n)
	}
}

// at is a time that is left out if it is zero.
func (b *builder) at(name string, t *time.Time) {
	if b.from != nil {
		*t = b.from.date(name)
	} else {
		b.date(name, *t)
	}
}

// flag is left out if it is false.
func (b *builder) flag(name string, v *bool) {
	if b.from != nil {
		*v = b.from.Text(name) == "true"
	} else if *v {
		b.boolean(name, true)
	}
}

// word is one of some words, left out if it is zero.
func word[T interface {
	comparable
	fmt.Stringer
}](b *builder, name string, v *T, parse func(string) (T, error)) {
	var zero T
	if b.from == nil {
		if *v != zero {
			b.text(name, (*v).String())
		}
		return
	}
	if text := b.from.Text(name); text != "" {
		var err error
		if *v, err = parse(text); err != nil {
			b.fail(err)
		}
	}
}

// identifier is that of a job.
func (b *builder) identifier(name string, id *queuefs.JobID) {
	if b.from == nil {
		b.composed(name, id.Append(b.buf))
		return
	}
	var err error
	if *id, err = queuefs.ParseJobID(b.from.Text(name)); err != nil {
		b.fail(err)
	}
}

// queue is the reference to the queue of a thing.
func (b *builder) queue(base Base, id *string) {
	if b.from != nil {
		_, *id, _ = CutLast(b.from.Text("queueState"))
	} else {
		b.composed("queueState", base.Append(b.buf, "state", *id))
	}
}

// jobs are references to jobs of a queue.
func (b *builder) jobs(name string, base Base, queue string, ids *[]queuefs.JobID) {
	if b.from == nil {
		b.list(name, references(base, queue, *ids))
		return
	}
	for _, ref := range b.from.Items(name) {
		_, id, err := ParseJobRef(ref)
		if err != nil {
			b.fail(err)
			return
		}
		*ids = append(*ids, id)
	}
}

// texts is a list of texts.
func (b *builder) texts(name string, list *[]string) {
	if b.from != nil {
		*list = b.from.Items(name)
		return
	}
	items := make([]string, len(*list))
	for i, s := range *list {
		items[i] = validText(s)
	}
	b.list(name, items)
}

// references returns the job states as parts of one string.
func references(base Base, queue string, ids []queuefs.JobID) []string {
	if len(ids) == 0 {
		return nil
	}
	prefix := base.Append(nil, "state", queue)
	text := make([]byte, 0, len(ids)*(len(prefix)+14))
	for _, id := range ids {
		text = id.Append(append(append(text, prefix...), '/'))
	}
	var (
		refs = make([]string, len(ids))
		all  = string(text)
		n    = len(prefix) + 14
	)
	for i := range refs {
		refs[i] = all[i*n : (i+1)*n]
	}
	return refs
}
