package publisher

import (
	"fmt"
	"time"

	"cutie/publisher/names"
)

// again says where who comes too late begins anew.
func (s documents) again() string {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	text := fmt.Sprintf("begin anew with %s at %s", s.URI(names.ResourceList), at(s.LastChange()))
	if d := s.Dump(0); d != nil {
		text += fmt.Sprintf(", or with %s at %s", s.URI(names.ResourceDump), at(d.At))
	}
	return text
}
