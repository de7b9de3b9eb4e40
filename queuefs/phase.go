package queuefs

import (
	"context"
	"fmt"
	"strings"

	"cutie/queuefs/journal/segment"
)

// A Phase event is of no job and of no file of the queue: it tells of something
// that a facade keeps beside the queue, so that its changes stand in the one
// history with a number of their own. The text of its record is the subject, a
// blank and the phase, or the subject alone. It changes nothing but the number
// and the time of the last event, so replaying it again is harmless.

const (
	maxSubject = 128
	maxPhase   = 32
)

// TellPhase makes an event of a phase change of what the queue does not have
// as a job, such as a job of UWS that was not started: subject is its
// identifier, 1 to 128 printable characters of ASCII without blanks, and phase
// up to 32 capital letters, "" if it is gone. The event is on stable storage
// when TellPhase returns nil. Other names are [ErrBadName]; without room in the
// journal the error is [ErrNoSpace].
func (q *Queue) TellPhase(ctx context.Context, subject, phase string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !goodSubject(subject) {
		return fmt.Errorf("%w: subject %.200q is not 1 to %d printable characters of ASCII", ErrBadName, subject, maxSubject)
	}
	if !goodPhase(phase) {
		return fmt.Errorf("%w: phase %.200q is not up to %d capital letters", ErrBadName, phase, maxPhase)
	}
	text := []byte(subject)
	if phase != "" {
		text = append(append(text, ' '), phase...)
	}
	return q.commit(func() ([]*record, error) {
		r := &record{kind: Phase, text: text}
		r.seq, r.time = q.next()
		return []*record{r}, nil
	})
}

func goodSubject(s string) bool {
	bad := func(r rune) bool { return r <= ' ' || r > '~' }
	return s != "" && len(s) <= maxSubject && !strings.ContainsFunc(s, bad)
}

func goodPhase(s string) bool {
	return len(s) <= maxPhase && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// applyPhase is apply for a Phase event; q.mu is held.
func (q *Queue) applyPhase(r *record, at segment.Position) {
	q.touched = true
	q.note(r, at)
	q.seqTime = max(q.seqTime, r.time)
}

// phaseEvent returns what followers see of the record of a Phase event.
func (r *record) phaseEvent() Event {
	subject, phase, _ := strings.Cut(string(r.text), " ")
	return Event{Seq: r.seq, Time: micro(r.time), Kind: r.kind, Subject: subject, Phase: phase}
}
