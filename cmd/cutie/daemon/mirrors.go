package daemon

import "cutie/cmd/cutie/mirror"

// mirrorOptions are the settings of the mirrors, with the log.
func (d *daemon) mirrorOptions() mirror.Options {
	o := d.Mirror
	o.Tell = func(name, text string) { d.Log.Warn().Str("mirror", name).Msg(text) }
	return o
}
