package record_test

import (
	"errors"
	"testing"

	"cutie/queuefs/record"
)

func TestHomeChangesReadBack(t *testing.T) {
	for _, want := range []record.HomeChange{
		{Kind: record.QueueMade, Queue: "jobs", Time: 1234567890, Text: "name: jobs\n"},
		{Kind: record.QueueGone, Queue: "jobs"},
		{Kind: record.CallbackURL, Queue: "jobs", Text: "https://example.org/secret"},
		{Kind: record.ServiceInfo, Text: "name: home\n"},
	} {
		got, is, err := record.ParseHomeChange(want.Bytes())
		if got != want || !is || err != nil {
			t.Errorf("got %v, %v, %v, want %v", got, is, err, want)
		}
	}
	for _, bad := range []string{"\xff", "\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\xff\x63\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\xff\x01\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00jobs"} {
		if _, is, err := record.ParseHomeChange([]byte(bad)); !is || !errors.Is(err, record.ErrForm) {
			t.Errorf("%q: got %v, %v", bad, is, err)
		}
	}
	r := record.Record{Kind: 1, Queue: "jobs"}
	if _, is, _ := record.ParseHomeChange(r.Append(nil)); is {
		t.Error("the record of a job is taken for one of a home")
	}
}
