package daemon

import (
	"cutie/cmd/cutie/mirror"
	"cutie/queuefs"
)

// mirrorOptions are the settings of the mirrors, with the log.
func (d *daemon) mirrorOptions() mirror.Options {
	o := d.Mirror
	o.Addresses = d.fetch.Addresses()
	o.Tell = func(name, text string) { d.Log.Warn().Str("mirror", name).Msg(text) }
	return o
}

// mirrorFamilies are the figures of mirrors.
type mirrorFamilies struct{ behind, synced, contact, failing, audited, faults *figure }

func mirrorFigures(of *figures) mirrorFamilies {
	return mirrorFamilies{
		behind:  of.gauge("cutie_mirror_lag_events", "Events of the original that a mirror knows of and does not have.", sum),
		synced:  of.gauge("cutie_mirror_synced_timestamp_seconds", "When a mirror last had all events of its original; absent before.", least),
		contact: of.gauge("cutie_mirror_contact_timestamp_seconds", "When the original of a mirror last answered; absent before.", least),
		failing: of.gauge("cutie_mirror_failing", "1 if a mirror does not follow its original now.", sum),
		audited: of.gauge("cutie_mirror_audit_timestamp_seconds", "When a mirror was last compared with its original; absent before.", least),
		faults:  of.gauge("cutie_mirror_audit_faults", "Files that were not as at the original then.", sum),
	}
}

// add adds the figures of a queue, if it is a mirror.
func (m *mirrorFamilies) add(s *queuefs.QueueState) {
	if !s.Mirror.Live() {
		return
	}
	id, p, audit := s.Info.ID, &s.Progress, &s.Mirror.Audit
	m.behind.add(float64(max(int64(p.Known)-int64(s.Seq), 0)), id)
	m.failing.add(truth(p.Trouble != "" || s.Mirror.Bad != ""), id)
	if !p.Synced.IsZero() {
		m.synced.add(seconds(p.Synced), id)
	}
	if !p.Contact.IsZero() {
		m.contact.add(seconds(p.Contact), id)
	}
	if !audit.Time.IsZero() {
		m.audited.add(seconds(audit.Time), id)
		m.faults.add(float64(audit.Faults), id)
	}
}
