package sitemap_test

import (
	"testing"
	"time"

	"cutie/sitemap"
)

func TestParseTime(t *testing.T) {
	utc := func(year int, month time.Month, day, hour, minute, second, us int) time.Time {
		return time.Date(year, month, day, hour, minute, second, us*1000, time.UTC)
	}
	for _, tt := range []struct {
		in   string
		want time.Time
	}{
		{"2013", utc(2013, 1, 1, 0, 0, 0, 0)},
		{"2013-02", utc(2013, 2, 1, 0, 0, 0, 0)},
		{"2013-02-03", utc(2013, 2, 3, 0, 0, 0, 0)},
		{"2013-02-03T04:05Z", utc(2013, 2, 3, 4, 5, 0, 0)},
		{"2013-02-03T04:05", utc(2013, 2, 3, 4, 5, 0, 0)},
		{"2013-02-03T04:05+02:00", utc(2013, 2, 3, 2, 5, 0, 0)},
		{"2013-02-03T04:05:06Z", utc(2013, 2, 3, 4, 5, 6, 0)},
		{"2013-02-03T04:05:06", utc(2013, 2, 3, 4, 5, 6, 0)},
		{"2013-02-03T04:05:06+02:00", utc(2013, 2, 3, 2, 5, 6, 0)},
		{"2013-02-03T04:05:06-05:30", utc(2013, 2, 3, 9, 35, 6, 0)},
		{"2013-02-03T04:05:06.5Z", utc(2013, 2, 3, 4, 5, 6, 500_000)},
		{"2013-02-03T04:05:06.123456789", utc(2013, 2, 3, 4, 5, 6, 123_456)},
		{"2013-02-03T04:05:06.000120-01:00", utc(2013, 2, 3, 5, 5, 6, 120)},
		{"2012-02-29T23:59:59.999999Z", utc(2012, 2, 29, 23, 59, 59, 999_999)},
	} {
		got, err := sitemap.ParseTime(tt.in)
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
		} else if got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.in, got, tt.want)
		}
	}
	for _, in := range []string{
		"", "yesterday", "13-01-01", "2013-13-01", "2013-02-29", "2013-02-03T", "2013-02-03T04:05:60Z",
		"2013-02-03 04:05:06Z", "2013-02-03T04:05:06+2", "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00",
	} {
		if got, err := sitemap.ParseTime(in); err == nil {
			t.Errorf("%q: got %v, want an error", in, got)
		}
	}
}

func TestAppendTime(t *testing.T) {
	for _, tt := range []struct {
		in   time.Time
		want string
	}{
		{time.Date(2013, 1, 3, 9, 0, 0, 0, time.UTC), "2013-01-03T09:00:00Z"},
		{time.Date(2013, 1, 3, 9, 0, 0, 999, time.UTC), "2013-01-03T09:00:00Z"},
		{time.Date(2013, 1, 3, 9, 0, 0, 120_999, time.UTC), "2013-01-03T09:00:00.000120Z"},
		{time.Date(2013, 1, 3, 9, 0, 0, 500_000_000, time.UTC), "2013-01-03T09:00:00.500000Z"},
		{time.Date(2013, 1, 3, 1, 0, 0, 0, time.FixedZone("", 2*60*60)), "2013-01-02T23:00:00Z"},
		{time.Date(987, 12, 31, 23, 59, 59, 0, time.UTC), "0987-12-31T23:59:59Z"},
	} {
		if got := string(sitemap.AppendTime(nil, tt.in)); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.in, got, tt.want)
		}
	}
}
