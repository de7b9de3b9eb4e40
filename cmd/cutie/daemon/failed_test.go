package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cutie/queuefs"
)

// Refusals for want of room are not what fills the disk.
func TestAFullDiskIsLoggedNowAndThen(t *testing.T) {
	var log bytes.Buffer
	d := &daemon{Options: Options{Log: zerolog.New(&log)}}
	r := httptest.NewRequest("POST", "/content/jobs", nil)
	for range 100 {
		d.failed(r, fmt.Errorf("jobs: %w", queuefs.ErrNoSpace))
	}
	d.failed(r, errors.New("another"))
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("got %d lines:\n%s", n, &log)
	}
	d.full.Store(time.Now().Add(-fullEvery).UnixNano())
	d.failed(r, queuefs.ErrNoSpace)
	if n := strings.Count(log.String(), "\n"); n != 3 {
		t.Errorf("later: got %d lines", n)
	}
}
