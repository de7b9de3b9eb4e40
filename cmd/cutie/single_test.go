package main

import (
	"net/http"
	"testing"
)

func TestSingleNamesWhatDoesNotWait(t *testing.T) {
	for _, tt := range []struct {
		prefix, path, media string
		length              int64
		want                bool
	}{
		{"", "/content/jobs", "", 0, true},
		{"", "/content/jobs", "text/plain", 1, true},
		{"", "/content/jobs", "multipart/form-data; boundary=x", 1, false}, // a manifest, perhaps
		{"", "/content/jobs", "MultiPart/Form-Data; boundary=x", 1, false},
		{"", "/content/jobs", "application/x-multipart", 1, true},
		{"", "/consume/jobs", "", 0, true},
		{"", "/consume/jobs", "application/x-www-form-urlencoded", 6, false}, // wait=5
		{"", "/requeue/jobs/1", "", 0, false},
		{"", "/uws/jobs", "", 1, false},
		{"", "/hub", "", 1, false},
		{"", "/content", "", 1, false},
		{"/base", "/base/content/jobs", "", 1, true},
		{"/base", "/content/jobs", "", 1, true},
		{"/base", "/base/consume/jobs", "", 6, false},
		{"/base", "/other/content/jobs", "", 1, false},
	} {
		header := http.Header{}
		if tt.media != "" {
			header.Set("Content-Type", tt.media)
		}
		if got := single(tt.prefix)(tt.path, header, tt.length); got != tt.want {
			t.Errorf("prefix %q: %s with %d octets of %q: %v, want %v", tt.prefix, tt.path, tt.length, tt.media, got, tt.want)
		}
	}
}
