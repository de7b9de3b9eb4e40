package publisher

import (
	"time"

	"cutie/queuefs"
)

// A seen is a topic as it was when it was looked at last. Each is asked for a
// few times a second: what has not changed is not found out again.
type seen struct {
	topic
	position string      // "" if it was not asked for
	event    queuefs.Seq // that the position of a change topic is of
	outline  outline     // that the versions of a framework topic are of
	versions versions    // but for the Source Description
}

// look returns a topic as it was. The error may be a [websub.ErrNoTopic].
func (n *Notifier) look(ref string) (seen, error) {
	n.mu.Lock()
	s, ok := n.known[ref]
	n.mu.Unlock()
	if ok {
		if q, err := n.p.svc.queue(s.q.ID()); err == nil && q == s.q {
			return s, nil
		}
	}
	t, err := n.topic(ref)
	return seen{topic: t}, err
}

func (n *Notifier) keep(s seen) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[s.url] = s
}

// Version implements [websub.Source]. What documents become without an event,
// with time or by Publish, is seen with the next second.
func (n *Notifier) Version() uint64 {
	const prime = 1099511628211
	v := uint64(n.p.Now().Unix())
	for _, q := range n.p.svc.queues() {
		v = v*prime + uint64(q.Seq())
	}
	return v
}

// Latest implements [websub.Source]. It reads memory, and brings the lists up to
// date for a framework topic.
func (n *Notifier) Latest(ref string) (position string, err error) {
	s, err := n.look(ref)
	if err != nil {
		return "", err
	}
	if s.framework {
		if err := n.update(&s); err != nil {
			return "", err
		}
		return n.description() + "." + s.position, nil
	}
	if s.position == "" || s.event != s.q.Seq() {
		st := s.q.State()
		s.event, s.position = st.Seq, place{st.Seq, s.orCreated(st.LastEvent)}.String()
		n.keep(s)
	}
	return s.position, nil
}

// update looks at the documents of a framework topic, if they may be others
// than they were.
func (n *Notifier) update(s *seen) error {
	now, err := s.topic.outline()
	if err != nil || s.position != "" && s.outline == now {
		return err
	}
	if s.versions, err = s.topic.versions(); err != nil {
		return err
	}
	s.outline, s.position = now, s.versions.String()
	n.keep(*s)
	return nil
}

// An outline has all that the documents of framework hang on. It is compared
// in their place.
type outline struct {
	life             int
	first            queuefs.Seq // of the open list
	at               time.Time   // of the last event, where indexes tell it
	lists, packages  int         // that are kept
	listed, packaged int         // of these, that are current
	dumped           queuefs.Seq
	dumps            int
	dump             *edition // that is current
}

// outline brings the lists up to date and returns how they stand.
func (t topic) outline() (outline, error) {
	if err := t.catchUp(); err != nil {
		return outline{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.sets[t.set]
	packages, _ := t.dumped(c)
	return outline{life: c.life, first: c.mark.first, at: t.oldUntil(c.mark.at), lists: len(c.lists.all), packages: len(c.packages.all),
		listed: len(t.indexed(c)), packaged: len(packages), dumped: c.dumped, dumps: len(c.kept), dump: c.current()}, nil
}
