package home_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
)

var created = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

func TestPropertiesReadAsTheyWereWritten(t *testing.T) {
	full := home.QueueInfo{ID: "ark+=1", Identifier: "ark:/1", Name: "Näme", Description: "two: lines%", CullingSize: 10, CullingAge: 0, VerifyOnRead: true,
		Paused: created, Closed: true, Acknowledge: job.AckTimeout, Dumps: "replica", Lease: time.Minute, MaxAttempts: 3, RetryDelay: time.Second, RetryFactor: 4, RetryMax: time.Minute,
		Limits: job.Limits{Pending: 1, Life: job.Unlimited}, Callback: "https://example.org/?x", Digests: digest.SetOf(digest.MD5), Created: created}
	for _, want := range []home.QueueInfo{full, home.NewQueue("jobs", created)} {
		if got, err := home.ParseQueue(want.ID, want.Text()); err != nil || got != want {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
	service := home.ServiceInfo{Name: "n", Identifier: "uc3:x", Description: "d", Scheme: home.Scheme, BaseURI: "https://example.org/", SupportURI: "mailto:a@example.org",
		DefaultCatalog: "jobs", TombstoneAge: 24, Created: created}
	for _, want := range []home.ServiceInfo{service, {Scheme: home.Scheme, Created: created}} {
		if got, err := home.ParseService(want.Text()); err != nil || got != want {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
}

func TestPropertiesThatMakeNoSense(t *testing.T) {
	for text, want := range map[string]string{
		"": "identifier", "no colon": "", "name: x\n": "identifier",
		"identifier: x\nlease: long\n":               "lease",
		"identifier: x\ncullingAgeThreshold: -1\n":   "cullingAgeThreshold",
		"identifier: x\nclosed: perhaps\n":           "closed",
		"identifier: x\npaused: today\n":             "paused",
		"identifier: x\nlimits: pending=all\n":       "pending=all",
		"identifier: x\nacknowledge: loudly\n":       "loudly",
		"identifier: x\ndigests: SHA-256 LENGTH-1\n": "LENGTH-1",
	} {
		if _, err := home.ParseQueue("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", text, err)
		}
	}
	for _, text := range []string{"no colon", "tombstoneAge: 0\n", "tombstoneAge: 876001\n", "created: today\n"} {
		if _, err := home.ParseService([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	// A number too large for its type is refused, and not cut.
	for _, text := range []string{"lease: 9223372036854775807", "maxAttempts: 9223372036854775807", "retryDelay: 9223372036854775807", "retryFactor: 9223372036854775807", "retryMax: 9223372036854775807"} {
		info, err := home.ParseQueue("x", []byte("identifier: x\n"+text+"\n"))
		if err == nil {
			err = info.Check()
		}
		if !errors.Is(err, job.ErrBadName) {
			t.Errorf("%s: got %+v, %v", text, info, err)
		}
	}
}

func TestLeaseFor(t *testing.T) {
	for _, tt := range []struct {
		ack        job.Acknowledge
		lease      time.Duration
		asked, got time.Duration
	}{
		{job.AckNone, time.Minute, 0, 0},
		{job.AckNone, 0, time.Second, time.Second},
		{job.AckRequired, time.Minute, 0, time.Minute},
		{job.AckTimeout, 0, 0, home.DefaultLease},
		{job.AckTimeout, time.Minute, time.Hour, time.Hour},
	} {
		info := home.QueueInfo{Acknowledge: tt.ack, Lease: tt.lease}
		if got := info.LeaseFor(tt.asked); got != tt.got {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}
