package main

import (
	"testing"
)

func TestOctets(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "512": "512", "64K": "64K", "1024": "1K", "16G": "16G", "1536K": "1536K", "8388607T": "8388607T"} {
		var o octets
		if err := o.Set(text); err != nil || o.String() != want {
			t.Errorf("%s: got %s, %v, want %s", text, o.String(), err, want)
		}
	}
	for _, text := range []string{"", "K", "-1", "1k", "1KK", "K1", "1.5G", "8388608T", "1 K", "+"} {
		var o octets
		if err := o.Set(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, o.String())
		}
	}
}
