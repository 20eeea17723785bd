// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"liqo.io/federation/generated/informers/externalversions"
)

// A provider sends valid objects with different names in each response, and closes watches without an error, so that
// client-go continues them without listing the objects again. What an informer keeps is bounded nevertheless.
func TestInformersKeepABoundedNumberOfObjects(t *testing.T) {
	const objects, perResponse = 1_000, 300
	offer := func(text string) string {
		return `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"ResourceOffer",` +
			`"metadata":{"name":"offer-%d","namespace":"a","resourceVersion":"%[1]d"},"spec":{"clusterID":"` + text + `"}}`
	}
	for _, test := range []struct {
		name string
		// texts is the length of a text in each object.
		texts int
		// list is the number of objects in a list, and more means that another page follows.
		list int
		more bool
		// lists is the number of first pages after which the provider has tried enough.
		lists int64
	}{
		{"watches that are closed before the limit of events", 10, 1, false, 3},
		{"watches that are closed before the limit of bytes", 2_000, 1, false, 3},
		{"endless pages of a list", 10, perResponse, true, 2},
		{"endless pages of a list with large objects", 2_000, perResponse, true, 2},
		{"a list of many objects", 10, 3 * objects, false, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var next, sent, lists atomic.Int64
			format := offer(strings.Repeat("x", test.texts))
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				query := r.URL.Query()
				if query.Has("sendInitialEvents") {
					w.WriteHeader(http.StatusUnprocessableEntity)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				write := func(text string) {
					sent.Add(int64(len(text)))
					// The client may have closed the connection.
					_, _ = io.WriteString(w, text)
				}
				if query.Has("watch") {
					for range perResponse {
						write(`{"type":"ADDED","object":` + fmt.Sprintf(format, next.Add(1)) + "}\n")
					}
					return
				}
				if !query.Has("continue") {
					lists.Add(1)
				}
				more := ""
				if test.more {
					more = `,"continue":"more"`
				}
				write(`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"ResourceOfferList",` +
					`"metadata":{"resourceVersion":"1"` + more + `},"items":[`)
				for i := range test.list {
					if i > 0 {
						write(",")
					}
					write(fmt.Sprintf(format, next.Add(1)))
				}
				write("]}")
			}))
			t.Cleanup(server.Close)
			limits := Limits{Response: 800 << 10, Watch: 1 << 20, Objects: objects, Elements: 10_000}
			config, err := Config(&Identity{
				Server: server.URL, Token: "token",
				CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			}, Options{Limits: limits, Dial: (&net.Dialer{}).DialContext})
			if err != nil {
				t.Fatal(err)
			}
			clients, err := NewClients(config)
			if err != nil {
				t.Fatal(err)
			}
			factory := externalversions.NewSharedInformerFactoryWithOptions(clients.Federation, 0,
				externalversions.WithNamespace("a"), externalversions.WithTransform(Trim))
			informer := factory.Federation().V1alpha1().ResourceOffers().Informer()
			factory.StartWithContext(t.Context())
			most := 0
			// Informers delay their retries, each longer than the previous one.
			deadline := time.After(time.Minute)
			ticker := time.NewTicker(time.Millisecond)
			defer ticker.Stop()
			for lists.Load() < test.lists {
				most = max(most, len(informer.GetStore().ListKeys()))
				if most > 3*objects || next.Load() > 20*objects {
					break
				}
				select {
				case <-deadline:
					t.Fatalf("%d lists within a minute, want %d", lists.Load(), test.lists)
				case <-ticker.C:
				}
			}
			t.Logf("%d objects sent, at most %d kept", next.Load(), most)
			if most > 2*objects {
				t.Errorf("the informer keeps %d objects, want at most %d", most, 2*objects)
			}
			if perList := sent.Load() / lists.Load(); perList > limits.Response+limits.Watch+1<<20 {
				t.Errorf("the informer reads %d bytes before it lists objects again", perList)
			}
			if perList := next.Load() / lists.Load(); perList > 3*objects+perResponse {
				t.Errorf("the informer reads %d objects before it lists them again", perList)
			}
		})
	}
}
