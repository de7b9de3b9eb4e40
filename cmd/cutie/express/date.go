package express

import (
	"net/http"
	"sync/atomic"
	"time"
)

// A dated second is one as the field Date gives it.
type dated struct {
	second int64
	text   string
}

var now atomic.Pointer[dated]

// date returns t as the field Date gives it. All answers of a second have the
// same.
func date(t time.Time) string {
	s := t.Unix()
	d := now.Load()
	if d == nil || d.second != s {
		d = &dated{s, t.UTC().Format(http.TimeFormat)}
		now.Store(d)
	}
	return d.text
}
