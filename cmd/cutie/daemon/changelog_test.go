package daemon

import (
	"bytes"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// A disk that is full and not in turn is told once, and its end once.
func TestAFullDiskIsLoggedAtItsBeginningAndItsEnd(t *testing.T) {
	var log bytes.Buffer
	f := fullness{log: zerolog.New(&log)}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, full := range []bool{false, true, true, false, true, false, false, false, false, true} {
		f.look(full, now)
		now = now.Add(settled / 2)
	}
	const begins = `{"level":"error","cure":"make space, such as with cutie cull: cutie help operating","message":"the disk is full: submissions and results are refused"}` + "\n"
	if got, want := log.String(), begins+`{"level":"info","ms":15000,"message":"the disk has free space again"}`+"\n"+begins; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
