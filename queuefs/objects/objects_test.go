package objects_test

import (
	"context"
	"errors"
	"testing"

	"cutie/queuefs/objects"
	"cutie/queuefs/objects/objectstest"
)

func TestMemoryIsAStore(t *testing.T) { objectstest.Run(t, new(objectstest.Memory)) }

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
		m := &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
			if r.Op == op {
				return objectstest.Before
			}
			return objectstest.None
		}}
		if err := objects.Probe(context.Background(), m); !errors.Is(err, objectstest.ErrFault) {
			t.Errorf("%s: got %v", op, err)
		}
	}
}
