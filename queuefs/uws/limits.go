package uws

import (
	"errors"
	"fmt"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/quota"
	"cutie/queuefs/web"
)

// usual are the limits of a user in a queue if neither the user nor the queue has others.
// Jobs submitted by other ways do not count for them. A destruction is not later than a
// year after the creation then, unless the queue keeps jobs longer by itself.
var usual = queuefs.Limits{Pending: 1000, Active: 10_000, Upload: 64 << 30}

const usualLife = 8760 * time.Hour

// within returns the settings with the limits of a user in the place of those of
// the queue.
func (s settings) within(l queuefs.Limits) settings {
	if l.Run != 0 {
		s.maxDuration = max(l.Run, 0)
	}
	switch {
	case l.Life != 0:
		s.maxLife = time.Duration(max(l.Life, 0)) * time.Hour
	case s.maxLife == 0 && s.life > 0:
		s.maxLife = max(usualLife, s.life)
	}
	s.clamp()
	return s
}

// admit claims what a user asks for, or rejects the request with 403 (UWS 1.1,
// 2.2.3.1).
func (h *Handler) admit(r *request, owner string, ask quota.Use) (done func(), err error) {
	done, err = h.o.Quota.Admit(r.q, owner, r.limits, usual, ask)
	if e, ok := errors.AsType[*web.Error](err); ok {
		err = forbidden("%s", e.Message)
	}
	return done, err
}

// bytes returns the size of the payload that a job will have, about.
func (f *filled) bytes(params []pair) (n int64) {
	for _, u := range f.uploads {
		n += u.draft.Size()
	}
	if len(f.uploads) == 0 {
		n = int64(len(formatForm(params)))
	}
	return n
}

// limitsInWords returns the limits of the caller for a page.
func (h *Handler) limitsInWords(r *request) (words []string, err error) {
	use, err := h.o.Quota.Use(r.q, r.caller.Name, r.limits)
	if err != nil {
		return nil, err
	}
	granted, limits := r.set.within(r.limits), r.limits.Over(usual)
	for _, one := range []struct {
		has, most int64
		what      string
	}{
		{use.Pending, limits.Pending, "jobs PENDING"},
		{use.Active, limits.Active, "jobs QUEUED or EXECUTING"},
		{use.Upload, limits.Upload, "octets in all of them"},
	} {
		if one.most > 0 {
			words = append(words, fmt.Sprintf("%d of %d %s", one.has, one.most, one.what))
		}
	}
	if granted.maxDuration > 0 {
		words = append(words, fmt.Sprintf("%d seconds of execution", granted.maxDuration))
	}
	if granted.maxLife > 0 {
		words = append(words, fmt.Sprintf("%.0f hours until destruction", granted.maxLife.Hours()))
	}
	return words, nil
}
