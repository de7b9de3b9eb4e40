package access_test

import (
	"testing"

	"cutie/cmd/cutie/access"
)

func TestRightsAreReadAndPrinted(t *testing.T) {
	for text, want := range map[string]string{
		"read":                        "read",
		"none":                        "none",
		"all":                         "admin",
		"submit:b,read,submit:a,read": "read,submit:a,submit:b",
		"consume:ark:/13030/x.y":      "consume:ark+=13030=x%2Cy",
		"consume:ark+=13030=x%2Cy":    "consume:ark+=13030=x%2Cy",
		"admin:q,delete:q":            "delete:q,admin:q",
	} {
		r, err := access.ParseRights(text)
		if err != nil || r.String() != want {
			t.Errorf("%s: got %s, %v, want %s", text, r, err, want)
			continue
		}
		again, err := access.ParseRights(r.String())
		if err != nil || again.String() != want {
			t.Errorf("%s: read again: got %s, %v", want, again, err)
		}
	}
	for _, text := range []string{"", "write", "Read", "read,", "read:", "read:..", "read:cutie", ":q", "read, submit", "none,read", "0"} {
		if r, err := access.ParseRights(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, r)
		}
	}
}

func TestRightsAllow(t *testing.T) {
	for _, tt := range []struct {
		rights string
		right  access.Right
		queue  string
		want   bool
	}{
		{"read", access.Read, "", true},
		{"read", access.Read, "q", true},
		{"read", access.Submit, "q", false},
		{"read:q", access.Read, "q", true},
		{"read:q", access.Read, "", false},
		{"read:q", access.Read, "r", false},
		{"admin:q", access.Consume, "q", true},
		{"admin:q", access.Consume, "r", false},
		{"admin:q", access.Admin, "", false},
		{"admin", access.Delete, "r", true},
		{"submit,consume,delete,read", access.Admin, "q", false},
		{"none", access.Read, "q", false},
	} {
		r, err := access.ParseRights(tt.rights)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Allow(tt.right, tt.queue); got != tt.want {
			t.Errorf("%s, %v of %q: got %v, want %v", tt.rights, tt.right, tt.queue, got, tt.want)
		}
	}
}
