package main_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// A ticket says of a payload who submitted it and when. Payload and sidecar
// are made of it alone, so that any job that turns up can be checked.
type ticket struct {
	client, op  int // the op-th operation of a client
	file, files int // one of so many files of the operation, from 0
	size        int // octets of the payload, without its first line
}

// payload is a line with the ticket and size octets that follow from it.
func (k ticket) payload() []byte {
	b := fmt.Appendf(nil, "client %d op %d file %d of %d size %d\n", k.client, k.op, k.file, k.files, k.size)
	random := rand.NewPCG(uint64(k.client)<<32|uint64(k.op), uint64(k.file))
	end := len(b) + k.size
	for len(b) < end {
		b = binary.LittleEndian.AppendUint64(b, random.Uint64())
	}
	return b[:end]
}

// sidecar is that of the payload; every third has none.
func (k ticket) sidecar() string {
	if (k.client+k.op+k.file)%3 == 0 {
		return ""
	}
	return fmt.Sprintf("für %d/%d/%d: 100%% \"as it was\"\nand a second line", k.client, k.op, k.file)
}

// parseTicket returns the ticket of a payload, which must be the whole payload
// and come with its sidecar.
func parseTicket(payload []byte, sidecar string) (k ticket, err error) {
	line, _, _ := bytes.Cut(payload, []byte("\n"))
	if _, err := fmt.Sscanf(string(line), "client %d op %d file %d of %d size %d", &k.client, &k.op, &k.file, &k.files, &k.size); err != nil {
		return k, fmt.Errorf("payload begins with %.60q: %v", line, err)
	}
	if k.size > 1<<20 || !bytes.Equal(payload, k.payload()) {
		return k, fmt.Errorf("payload of %+v is not what was submitted: %d octets", k, len(payload))
	}
	if sidecar != k.sidecar() {
		return k, fmt.Errorf("sidecar of %+v is %q", k, sidecar)
	}
	return k, nil
}
