package dashboard

import (
	"fmt"
	"net/http"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/state"
)

// A Mirror is a queue kept as a copy of another one, for its page.
type Mirror struct {
	Queue       string
	Facts       queuefs.Mirror
	Progress    home.Progress
	Seq         queuefs.Seq // of its last event
	Differences []string    // some of those found by the last audit since the start
}

// Behind is how many events of the original the mirror lacks.
func (m *Mirror) Behind() int64 { return max(int64(m.Progress.Known)-int64(m.Seq), 0) }

// Fault says why the mirror does not follow, "" if it does.
func (m *Mirror) Fault() string {
	if m.Facts.Bad != "" {
		return m.Facts.Bad
	}
	return m.Progress.Trouble
}

// Mirrored counts the mirrors of a service.
type Mirrored struct{ Mirrors, Failing, Faulty, Unproved int }

// Add counts a queue.
func (c *Mirrored) Add(s *queuefs.QueueState) {
	if !s.Mirror.Live() {
		return
	}
	c.Mirrors++
	switch {
	case s.Progress.Trouble != "" || s.Mirror.Bad != "":
		c.Failing++
	case s.Mirror.Audit.Faults > 0:
		c.Faulty++
	case s.Mirror.Audit.Time.IsZero():
		c.Unproved++
	}
}

// A mirrorNote says on the page of the service whether its mirrors are true.
type mirrorNote struct{ Class, Text, Ref string }

func newMirrorNote(base state.Base, c *Mirrored) *mirrorNote {
	n := mirrorNote{"", "Following: " + plural(c.Mirrors, "mirror"), base.Ref("mirrors")}
	switch {
	case c.Mirrors == 0:
		return nil
	case c.Failing > 0:
		n.Class, n.Text = "bad", fmt.Sprintf("Not following: %d of %s.", c.Failing, plural(c.Mirrors, "mirror"))
	case c.Faulty > 0:
		n.Class, n.Text = "bad", fmt.Sprintf("Not as the original: %d of %s.", c.Faulty, plural(c.Mirrors, "mirror"))
	case c.Unproved > 0:
		n.Text += fmt.Sprintf("; not audited yet: %d.", c.Unproved)
	default:
		n.Text += "; true by the last audits."
	}
	return &n
}

type mirrorsPage struct {
	head
	Rows  []mirrorRow
	Cure  string // URL of the help
	Audit bool   // the reader may audit some
}

type mirrorRow struct {
	link
	Source, State, Class, Fault string
	Behind, Synced, Audited     string
	Files, Faults, Audit        string // Audit: URL to have it audited; ""
	Differences                 []string
	More                        int64 // differences without a name here
}

// shownDifferences is how many differences of a mirror its row names.
const shownDifferences = 20

// Mirrors returns the page of the mirrors.
func Mirrors(v Site, all []Mirror, now time.Time) []byte {
	p := &mirrorsPage{head: v.head("Mirrors", crumb{Class: "step", Text: "Mirrors"}), Cure: v.Base.Ref(ManualDir, "mirrors")}
	ago := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return state.Ago(now, t)
	}
	for i := range all {
		m := &all[i]
		audit := &m.Facts.Audit
		r := mirrorRow{link: link{v.page("state", m.Queue), m.Queue}, Source: clean(m.Facts.Source), State: "follows", Class: "good", Fault: clean(m.Fault()),
			Behind: plural(m.Behind(), "event"), Synced: ago(m.Progress.Synced), Audited: ago(audit.Time),
			Files: plural(audit.Files, "file"), Faults: grouped(number(audit.Faults))}
		switch {
		case r.Fault != "":
			r.State, r.Class = "does not follow", "bad"
		case audit.Faults > 0:
			r.State, r.Class = "differs", "bad"
		case m.Behind() > 0:
			r.State, r.Class = "behind", "warn"
		}
		if audit.Faults > 0 {
			for _, d := range m.Differences[:min(len(m.Differences), shownDifferences)] {
				r.Differences = append(r.Differences, clean(d))
			}
			r.More = audit.Faults - int64(len(r.Differences))
		}
		if ref := v.Base.Ref("audit", m.Queue); v.may("POST", ref) {
			r.Audit, p.Audit = ref, true
		}
		p.Rows = append(p.Rows, r)
	}
	return v.write("mirrors", p)
}

// mirrors answers with the mirrors among the readable queues.
func (b *Board) mirrors(w http.ResponseWriter, r *http.Request) error {
	var all []Mirror
	for _, q := range b.readable(r) {
		s := q.State()
		if !s.Mirror.Live() {
			continue
		}
		m := Mirror{Queue: s.Info.ID, Facts: *s.Mirror, Progress: s.Progress, Seq: s.Seq}
		if b.Differences != nil {
			m.Differences = b.Differences(m.Queue)
		}
		all = append(all, m)
	}
	return answer(w, Mirrors(b.site(r, ""), all, time.Now()))
}
