package queuefs

import (
	"cutie/queuefs/index"
	"cutie/queuefs/replay"
)

// close lets go of the queue.
func (q *Queue) close() {
	q.ledger.Free()
	q.tree.Close()
}

// ID returns the cleaned identifier: directory name and URL segment.
func (q *Queue) ID() string { return q.ledger.ID() }

// Names are the identifier as it was given, and the name.
func (q *Queue) Names() [2]string { return q.ledger.Settings().Names() }

// Info returns the properties of the queue.
func (q *Queue) Info() QueueInfo { return q.ledger.Settings().Info() }

// Callback returns the URL to be told of changes, "" if there is none, or of a mirror: its
// original tells. Info has scheme and host of it: the rest is a secret.
func (q *Queue) Callback() (string, error) {
	if q.Mirror().Live() {
		return "", nil
	}
	return q.svc.properties.callbacks.Of(q.ID(), q.info().Callback)
}

// Original is the queue of another home mirrored by this one, now or once.
func (q *Queue) Original() *replay.Original { return &q.original }

// Mirror is as [replay.Original.Mirror].
func (q *Queue) Mirror() *Mirror { return q.original.Mirror() }

// info is Info without names and time.
func (q *Queue) info() QueueInfo { return q.ledger.Settings().Rules() }

// InfoFile returns queue-info.txt as it stands.
func (q *Queue) InfoFile() ([]byte, Facts) {
	s := q.ledger.Settings()
	return s.Text, s.Facts()
}

// look is [ledger.Ledger.Look].
func (q *Queue) look(do func(x *index.Index)) { q.ledger.Look(do) }
