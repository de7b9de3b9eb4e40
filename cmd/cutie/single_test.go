package main

import "testing"

func TestSingleNamesWhatDoesNotWait(t *testing.T) {
	for _, tt := range []struct {
		prefix, path string
		length       int64
		want         bool
	}{
		{"", "/content/jobs", 0, true},
		{"", "/content/jobs", 1, true},
		{"", "/consume/jobs", 0, true},
		{"", "/consume/jobs", 6, false}, // wait=5
		{"", "/requeue/jobs/1", 0, false},
		{"", "/uws/jobs", 1, false},
		{"", "/hub", 1, false},
		{"", "/content", 1, false},
		{"/base", "/base/content/jobs", 1, true},
		{"/base", "/content/jobs", 1, true},
		{"/base", "/base/consume/jobs", 6, false},
		{"/base", "/other/content/jobs", 1, false},
	} {
		if got := single(tt.prefix)(tt.path, tt.length); got != tt.want {
			t.Errorf("prefix %q: %s with %d octets: %v, want %v", tt.prefix, tt.path, tt.length, got, tt.want)
		}
	}
}
