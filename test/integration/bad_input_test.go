// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// answerSoon is the maximal time for the response to an invalid request.
const answerSoon = 10 * time.Second

// Malicious bodies are refused in time with a message, and cause at most one line in the log.
func TestDecodeLimits(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	c := makeTenancy(t, env, "empoli")
	user := env.User(t, c.user, v1alpha1.PeerGroup)
	retry(t, func() (any, error) {
		return federationOf(t, user).FederationV1alpha1().NamespaceMaps(c.tenant).List(t.Context(), metav1.ListOptions{})
	})
	// A valid list of half a million empty entries in the field spec, and nested groups of an
	// unknown field.
	namespaces := binary.AppendUvarint([]byte{2<<3 | 2}, 1_000_000)
	namespaces = append(namespaces, bytes.Repeat([]byte{1<<3 | 2, 0}, 500_000)...)
	// The field metadata with a name, and with an annotation whose value is not UTF-8.
	annotation := []byte{1<<3 | 2, 14, 1<<3 | 2, 4, 'r', 'o', 'm', 'e', 12<<3 | 2, 6, 1<<3 | 2, 1, 'a', 2<<3 | 2, 1, 0xff}
	groups := bytes.Repeat([]byte{15<<3 | 3}, 1_000_000)
	object := func(fields string) []byte {
		return fmt.Appendf(nil,
			`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"NamespaceMap","metadata":{"name":"rome"%s}`, fields)
	}
	// YAML references in nine levels of nine each, which expand to 387 million words.
	bomb := "apiVersion: federation.liqo.io/v1alpha1\nkind: NamespaceMap\nmetadata: {name: rome}\nspec:\n  a0: &a0 " +
		"[x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	const jsonType = "application/json"
	for _, test := range []struct {
		name, contentType string
		body              []byte
		want              int
	}{
		{"a body of more than 1 MB", jsonType, object(`,"annotations":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`), http.StatusRequestEntityTooLarge},
		{"annotations of more than 256 KB", jsonType, object(`,"annotations":{"a":"` + strings.Repeat("x", 300<<10) + `"}}`), http.StatusUnprocessableEntity},
		{"thirty thousand namespaces", jsonType, object(`},"spec":{"namespaces":[` + strings.Repeat(`{"name":"a","remoteName":"a"},`, 30_000) + `{}]}`), http.StatusUnprocessableEntity},
		{"arrays a million deep", jsonType, object(`},"spec":` + strings.Repeat("[", 1_000_000)), http.StatusBadRequest},
		{"objects two hundred thousand deep", jsonType, object(`},"spec":` + strings.Repeat(`{"a":`, 200_000)), http.StatusBadRequest},
		{"a number of a million digits", jsonType, object(`,"generation":` + strings.Repeat("9", 1_000_000) + `}`), http.StatusBadRequest},
		{"no JSON", jsonType, []byte("{"), http.StatusBadRequest},
		{"nothing", jsonType, nil, http.StatusBadRequest},
		{"bytes", jsonType, bytes.Repeat([]byte{0xff, 0x00}, 1000), http.StatusBadRequest},
		{"references that expand exponentially", "application/yaml", []byte(bomb), http.StatusBadRequest},
		{"a length of 4 GB in protobuf", runtime.ContentTypeProtobuf, []byte("k8s\x00\x0a\xff\xff\xff\xff\x0f"), http.StatusBadRequest},
		{"no protobuf", runtime.ContentTypeProtobuf, []byte("{}"), http.StatusBadRequest},
		{"invalid UTF-8 in protobuf", runtime.ContentTypeProtobuf, protobuf(t, annotation), http.StatusBadRequest},
		{"half a million namespaces in protobuf", runtime.ContentTypeProtobuf, protobuf(t, namespaces), http.StatusUnprocessableEntity},
		{"groups a million deep in protobuf", runtime.ContentTypeProtobuf, protobuf(t, groups), http.StatusBadRequest},
		{"CBOR", "application/cbor", bytes.Repeat([]byte{0x9f}, 100_000), http.StatusUnsupportedMediaType},
		{"a web form", "multipart/form-data; boundary=x", []byte("--x--"), http.StatusUnsupportedMediaType},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := strings.Count(env.Server.Log(t), "\n")
			started := time.Now()
			code, answer := exchange(t, user, http.MethodPost, groupPath+"/namespaces/"+c.tenant+"/namespacemaps",
				test.contentType, test.body)
			if took := time.Since(started); took > answerSoon {
				t.Errorf("it was answered after %s", took)
			}
			var status metav1.Status
			if err := json.Unmarshal(answer, &status); err != nil || code != test.want || status.Message == "" ||
				len(answer) > 1<<20 {
				t.Errorf("got %d (%v) in %d bytes: %.300s", code, err, len(answer), answer)
			}
			if lines := strings.Count(env.Server.Log(t), "\n") - before; lines > 5 {
				t.Errorf("the log grew by %d lines", lines)
			}
		})
	}
	if list, err := admin(t).FederationV1alpha1().NamespaceMaps(c.tenant).List(t.Context(),
		metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

// protobuf returns the Protobuf encoding of a NamespaceMap with these encoded fields.
func protobuf(t *testing.T, fields []byte) []byte {
	t.Helper()
	body := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(),
		Kind: "NamespaceMap"}, Raw: fields}
	encoded, err := body.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), encoded...)
}

func TestNumberOfInvitationsIsLimited(t *testing.T) {
	env := framework.Get(t)
	tokens := federationOf(t, env.Admin).FederationV1alpha1().PeeringTokens()
	const label = "test=too-many"
	t.Cleanup(func() {
		if err := tokens.DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: label}); err != nil {
			t.Error(err)
		}
	})
	var refusal error
	made := 0
	for made < 10_000 {
		token := &v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{GenerateName: "too-many-",
			Labels: map[string]string{"test": "too-many"}}}
		if _, refusal = tokens.Create(t.Context(), token, metav1.CreateOptions{}); refusal != nil {
			break
		}
		made++
	}
	if !apierrors.IsForbidden(refusal) || !strings.Contains(refusal.Error(), "the limit is 1000") {
		t.Fatalf("after %d invitations: %v", made, refusal)
	}
	// Server-side apply must be subject to the limit of stored PeeringTokens, like create.
	_, err := tokens.Patch(t.Context(), "one-more", types.ApplyPatchType,
		[]byte(`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"PeeringToken","metadata":{"name":"one-more"}}`),
		metav1.PatchOptions{FieldManager: "test"})
	if !apierrors.IsForbidden(err) {
		t.Errorf("applied: %v", err)
	}
	// Requests with existing tokens must still be allowed.
	if _, err := tokens.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// The writes of a peer in a loop are limited by the number of its objects, and requests of other
// peers are answered meanwhile.
func TestPeerThatWritesInALoopIsLimitedAndDoesNotStarveOthers(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	noisy, quiet := makeTenancy(t, env, "volterra"), makeTenancy(t, env, "cortona")
	client := func(c tenancy) versioned.Interface { return federationOf(t, env.User(t, c.user, v1alpha1.PeerGroup)) }
	loop, other := client(noisy), client(quiet).FederationV1alpha1().NamespaceMaps(quiet.tenant)
	for _, ready := range []func() (any, error){
		func() (any, error) { return other.List(t.Context(), metav1.ListOptions{}) },
		func() (any, error) {
			return loop.FederationV1alpha1().NamespaceMaps(noisy.tenant).List(t.Context(), metav1.ListOptions{})
		},
	} {
		retry(t, ready)
	}
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for worker := range 16 {
		writing.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				m := &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d-%d", worker, i)}}
				_, err := loop.FederationV1alpha1().NamespaceMaps(noisy.tenant).Create(ctx, m, metav1.CreateOptions{})
				if err != nil && ctx.Err() == nil && !apierrors.IsForbidden(err) && !apierrors.IsTooManyRequests(err) {
					t.Errorf("the noisy peer is answered with %v", err)
					return
				}
			}
		})
	}
	for i := range 50 {
		started := time.Now()
		m := &v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}
		if _, err := other.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
			t.Errorf("the quiet peer's request %d: %v", i, err)
		}
		if err := other.Delete(t.Context(), "rome", metav1.DeleteOptions{}); err != nil {
			t.Errorf("the quiet peer's request %d: %v", i, err)
		}
		if took := time.Since(started); took > answerSoon {
			t.Errorf("the quiet peer waited %s", took)
		}
	}
	stop()
	writing.Wait()
	stored, err := admin(t).FederationV1alpha1().NamespaceMaps(noisy.tenant).List(t.Context(), metav1.ListOptions{})
	// Concurrent requests may exceed the limit by a few objects.
	if err != nil || len(stored.Items) < 16 || len(stored.Items) > 32 {
		t.Errorf("%d maps are stored, %v", len(stored.Items), err)
	}
}
