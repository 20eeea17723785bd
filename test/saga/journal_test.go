// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package saga

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
)

// journal counts the writes of all processes of a cluster, beginning with 1. It ends a process at
// the write that fault selects.
type journal struct {
	fault  fault
	writes atomic.Int64
	log    struct {
		sync.Mutex
		lines []string
	}
}

func (j *journal) note(format string, args ...any) {
	j.log.Lock()
	defer j.log.Unlock()
	j.log.lines = append(j.log.lines, fmt.Sprintf(format, args...))
}

// write counts a write and performs it by send, whose result is logged. At the write that fault
// selects, it calls die before send and omits send, or calls die after send. In both cases it
// returns errGone.
func (j *journal) write(die func(), what string, send func() string) error {
	number := int(j.writes.Add(1))
	dies := number == j.fault.write
	if dies && !j.fault.lost {
		die()
		j.note("ends before %d: %s", number, what)
		return errGone
	}
	j.note("%d: %s: %s", number, what, send())
	if dies {
		die()
		j.note("ends after %d", number)
		return errGone
	}
	return nil
}

// roundTrip sends a request. Requests other than GET count as writes.
func (j *journal) roundTrip(die func(), r *http.Request) (response *http.Response, err error) {
	if r.Method == http.MethodGet {
		return http.DefaultTransport.RoundTrip(r)
	}
	gone := j.write(die, r.Method+" "+r.URL.Path, func() string {
		if response, err = http.DefaultTransport.RoundTrip(r); err != nil {
			return err.Error()
		}
		return response.Status
	})
	if gone == nil {
		return response, err
	}
	if response != nil {
		_ = response.Body.Close()
	}
	return nil, gone
}
