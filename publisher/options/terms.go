package options

import "time"

// Terms are the settings of periods and retention. A Source takes others while it runs.
type Terms struct {
	Period     time.Duration // see [Options]
	DumpPeriod time.Duration
	Retention
}

// Terms returns the terms among the settings.
func (o *Options) Terms() Terms { return Terms{o.Period, o.DumpPeriod, o.Retention} }

// With returns the settings with other terms.
func (o Options) With(t Terms) Options {
	o.Period, o.DumpPeriod, o.Retention = t.Period, t.DumpPeriod, t.Retention
	return o
}
