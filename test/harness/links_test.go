// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLinksAreReadFromProc(t *testing.T) {
	got, err := parseLinks(`Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
   br0: 5000000    4000    1    2    0     0          0         3  7000000    6000    0    0    0     0       0          0
`)
	want := map[string]Link{"lo": {}, "br0": {Received: 5000000, Sent: 7000000}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, links (-want +got):\n%s", err, diff)
	}
	for _, damaged := range []string{"br0: 1 2 3\n", "br0: x 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"} {
		if links, err := parseLinks(damaged); err == nil {
			t.Errorf("%q gave %v and no error", damaged, links)
		}
	}
}
