package options_test

import (
	"testing"
	"time"

	"cutie/publisher/options"
)

func TestPaces(t *testing.T) {
	for text, want := range map[string]options.Pace{
		"0": {}, "7d": {Period: 168 * time.Hour}, "36h": {Period: 36 * time.Hour}, "1000": {Rate: 1000},
		"10MB": {Rate: 10e6}, "10MB/s": {Rate: 10e6}, "500kB": {Rate: 500e3},
	} {
		got, err := options.ParsePace(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := options.ParsePace(got.String()); err != nil || again != want {
			t.Errorf("%s: printed as %s, which is %+v, %v", text, got, again, err)
		}
	}
	for _, bad := range []string{"", "-1", "-1h", "x", "10XB", "0d", "1e9"} {
		if got, err := options.ParsePace(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}
