package uws_test

import (
	"context"
	"strings"
	"testing"

	"cutie/queuefs"
)

func TestVersionIsChosenWhileTheQueueIsServed(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1")
	if text := w.get(job); !strings.Contains(text, `version="1.1"`) {
		t.Errorf("got %s, want version 1.1", text)
	}
	set := func(name, value string) error {
		_, err := w.svc.SetQueue(context.Background(), "q", func(info *queuefs.QueueInfo) error {
			if ok, err := info.UWS.Set(name, value); !ok || err != nil {
				return err
			}
			return nil
		})
		return err
	}
	if err := set("uwsVersion", "1.0"); err != nil {
		t.Fatal(err)
	}
	old := w.get(job)
	if strings.Contains(old, `version="1.1"`) || strings.Contains(old, "creationTime") {
		t.Errorf("got %s, want version 1.0", old)
	}
	if got := w.get(job + "/quote"); got != "-1" {
		t.Errorf("got quote %q, want an integer", got)
	}
	if err := set("uwsArchive", "true"); err == nil || !strings.Contains(err.Error(), "1.0 has no phase") {
		t.Errorf("got %v, want a refusal of ARCHIVED in 1.0", err)
	}
	if err := set("uwsVersion", ""); err != nil {
		t.Fatal(err)
	}
	again := w.get(job)
	w.close()
	w.open(nil)
	if got := w.q.Info().UWS; got != (queuefs.QueueInfo{}).UWS {
		t.Errorf("got %q, want what was unset", got)
	}
	valid(t, "1.0", old) // these skip the rest without the schemas
	valid(t, "1.1", again)
}
