package objects_test

import (
	"context"
	"errors"
	"testing"

	"cutie/queuefs/objects"
	"cutie/queuefs/objects/objectstest"
)

func TestMemoryIsAStore(t *testing.T) { objectstest.Run(t, new(objectstest.Memory)) }

// A counter is a store, and counts what was asked of it.
func TestRequestsAreCounted(t *testing.T) {
	m := new(objectstest.Memory)
	c := objects.Count(m)
	objectstest.Run(t, c)
	all, total := "", int64(0)
	c.Requests(func(of objects.Operation, n int64) {
		all += of.String() + " "
		total += n
		if n == 0 {
			t.Errorf("no requests of kind %v", of)
		}
	})
	if all != "put get delete list " || total != int64(m.Requests("")) {
		t.Errorf("got %sand %d requests in all, want %d", all, total, m.Requests(""))
	}
	ctx, name := context.Background(), "some"
	before, read := c.Bytes()
	if err := c.Create(ctx, name, []byte("12345")); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Read(ctx, c, name, 100); err != nil {
		t.Fatal(err)
	}
	if w, r := c.Bytes(); w-before != 5 || r-read != 5 {
		t.Errorf("got %d bytes written and %d read, want 5 of each", w-before, r-read)
	}
}

func TestProbeRefusesAStoreThatReplaces(t *testing.T) {
	m := &objectstest.Memory{Fault: func(objectstest.Request) objectstest.Fault { return objectstest.Lax }}
	if err := objects.Probe(context.Background(), m); !errors.Is(err, objects.ErrUnconditional) {
		t.Errorf("got %v", err)
	}
	if n := len(m.Objects()); n > 0 {
		t.Errorf("left %d objects", n)
	}
}

func TestProbeSaysWhichRequestFails(t *testing.T) {
	for _, op := range []string{"Create", "Get", "List", "Delete"} {
		m := &objectstest.Memory{Fault: objectstest.When(objectstest.Before, func(r objectstest.Request) bool { return r.Op == op })}
		if err := objects.Probe(context.Background(), m); !errors.Is(err, objectstest.ErrFault) {
			t.Errorf("%s: got %v", op, err)
		}
	}
}
