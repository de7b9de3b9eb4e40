package check

import (
	"errors"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// Cure returns the options of a check that mends the problems in r, or the error err of
// a check; ok is false if only files from elsewhere do, such as lost payloads.
func Cure(r *Report, err error) (o Options, ok bool) {
	switch {
	case errors.Is(err, queuefs.ErrNoHome), errors.Is(err, queuefs.ErrInfo):
		return Options{Rebuild: true}, true
	case err != nil:
		return o, false
	}
	for _, p := range r.Problems {
		switch {
		case strings.HasPrefix(p.Path, home.CallbacksDir+"/"), strings.HasPrefix(p.Path, home.MirrorsDir+"/"):
			continue // nobody else has it: it is to be set again
		case p.Level == durable.Unread:
			continue // it may be whole
		case p.Path == home.ListName, strings.HasPrefix(p.Path, "0="): // the tag
			o.Rebuild = true
		case p.Path == home.LogDir+"/"+home.JournalDir:
			o.Repair, o.AcceptLoss = true, true
		case strings.HasPrefix(p.Text, "directory lost"):
			continue // to be put back, or the queue removed
		case strings.Count(p.Path, "/") == 1 && !r.Repaired: // the directory of a queue
			o.Rebuild, o.AcceptLoss = true, true
		case r.Repaired && strings.Contains(p.Path, "/payload/"):
			continue
		case r.Repaired:
			o.Rebuild = true
		default:
			o.Repair = true
		}
	}
	return o, o.Repair || o.Rebuild
}
