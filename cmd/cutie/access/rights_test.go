package access_test

import (
	"testing"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/web"
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
		right  web.Right
		queue  string
		want   bool
	}{
		{"read", web.Read, "", true},
		{"read", web.Read, "q", true},
		{"read", web.Submit, "q", false},
		{"read:q", web.Read, "q", true},
		{"read:q", web.Read, "", false},
		{"read:q", web.Read, "r", false},
		{"admin:q", web.Consume, "q", true},
		{"admin:q", web.Consume, "r", false},
		{"admin:q", web.Admin, "", false},
		{"admin", web.Delete, "r", true},
		{"submit,consume,delete,read", web.Admin, "q", false},
		{"none", web.Read, "q", false},
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
