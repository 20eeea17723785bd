// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peeringtoken

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/fakes"
)

const (
	accounts = "liqo-invitations"
	tokenUID = types.UID("3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11")
	issued   = "eyJhbGciOiJSUzI1NiJ9.claims.signature"
)

var (
	created  = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	provider = Provider{ClusterName: "milan", ClusterID: "9a4b0a8e-5a3e-4a53-8f2e-6b1f1f1f2c22",
		Server: "https://milan.example.org:6443"}
)

// tokens is a read-only store with one PeeringToken, or none if token is nil.
type tokens struct{ token *federation.PeeringToken }

func (g tokens) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if g.token == nil || g.token.Name != name {
		return nil, apierrors.NewNotFound(federation.Resource("peeringtokens"), name)
	}
	return g.token.DeepCopy(), nil
}

func peeringToken(change ...func(*federation.PeeringToken)) *federation.PeeringToken {
	token := &federation.PeeringToken{
		ObjectMeta: metav1.ObjectMeta{Name: "for-rome", UID: tokenUID, ResourceVersion: "7",
			CreationTimestamp: metav1.NewTime(created)},
		Spec: federation.PeeringTokenSpec{ExpirationSeconds: ptr.To[int64](3600)},
	}
	for _, c := range change {
		c(token)
	}
	return token
}

// newVerb returns the subresource invitation in a cluster that issues tokens, with a clock that is stopped at now. It
// also returns the client, and the last TokenRequest.
func newVerb(
	t *testing.T, token *federation.PeeringToken, now time.Time, provider Provider,
) (*InvitationREST, *fake.Clientset, *authenticationv1.TokenRequest) {
	t.Helper()
	kube := fake.NewClientset()
	requested := &authenticationv1.TokenRequest{}
	fakes.React(kube, "create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "token" {
			return false, nil, nil
		}
		*requested = *action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
		answer := requested.DeepCopy()
		answer.Status = authenticationv1.TokenRequestStatus{Token: issued,
			ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(*requested.Spec.ExpirationSeconds) * time.Second))}
		return true, answer, nil
	})
	r := NewInvitationREST(tokens{token}, kube.CoreV1().ServiceAccounts(accounts), provider)
	r.clock = clocktesting.NewFakePassiveClock(now)
	return r, kube, requested
}

func TestInvitationIsComplete(t *testing.T) {
	r, kube, requested := newVerb(t, peeringToken(), created.Add(20*time.Minute), provider)
	obj, err := r.Create(t.Context(), "for-rome", &federation.Invitation{}, rest.ValidateAllObjectFunc,
		&metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status := obj.(*federation.Invitation).Status
	if status.ClusterName != "milan" || !status.ExpirationTime.Time.Equal(created.Add(time.Hour)) {
		t.Errorf("it is for %q until %s", status.ClusterName, status.ExpirationTime)
	}
	if *requested.Spec.ExpirationSeconds != 40*60 {
		t.Errorf("the token expires after %d s, not with the invitation", *requested.Spec.ExpirationSeconds)
	}
	if errs := validation.ValidateNewPeering(status.Peering, status.Peering.Name); len(errs) > 0 ||
		status.Peering.Spec.Token != issued {
		t.Errorf("its peering cannot be POSTed: %v", errs)
	}
	if errs := validation.ValidateForeignCluster(status.ForeignCluster); len(errs) > 0 {
		t.Errorf("its foreign cluster cannot be applied: %v", errs)
	}
	account, err := kube.CoreV1().ServiceAccounts(accounts).Get(t.Context(), "invitation-"+string(tokenUID),
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.OwnerReference{{APIVersion: "federation.liqo.io/v1alpha1", Kind: "PeeringToken", Name: "for-rome",
		UID: tokenUID}}
	if diff := cmp.Diff(want, account.OwnerReferences); diff != "" {
		t.Errorf("the owners of the account differ (-want +got):\n%s", diff)
	}
	if _, err := r.Create(t.Context(), "for-rome", &federation.Invitation{}, rest.ValidateAllObjectFunc,
		&metav1.CreateOptions{}); err != nil {
		t.Errorf("it cannot be requested twice: %v", err)
	}
}

func TestPartsOfAnInvitationHaveTheirTypes(t *testing.T) {
	r, _, _ := newVerb(t, peeringToken(), created, provider)
	obj, err := r.Create(t.Context(), "for-rome", &federation.Invitation{}, rest.ValidateAllObjectFunc,
		&metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	versioned := &v1alpha1.Invitation{}
	if err := scheme.Convert(obj, versioned, nil); err != nil {
		t.Fatal(err)
	}
	if versioned.Status.ForeignCluster.GroupVersionKind() != v1alpha1.SchemeGroupVersion.WithKind("ForeignCluster") ||
		versioned.Status.Peering.GroupVersionKind() != v1alpha1.SchemeGroupVersion.WithKind("Peering") {
		t.Errorf("the parts have the types %v, %v", versioned.Status.ForeignCluster.TypeMeta,
			versioned.Status.Peering.TypeMeta)
	}
}

func TestInvitationIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		token    *federation.PeeringToken
		request  federation.Invitation
		now      time.Time
		provider *Provider
		code     int32
		message  string
	}{
		"PeeringToken does not exist": {code: http.StatusNotFound, message: "for-rome"},
		"another name": {token: peeringToken(),
			request: federation.Invitation{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, code: http.StatusBadRequest,
			message: `"other"`},
		"another uid": {token: peeringToken(),
			request: federation.Invitation{ObjectMeta: metav1.ObjectMeta{UID: "other"}}, code: http.StatusConflict,
			message: "uid"},
		"an old resourceVersion": {token: peeringToken(),
			request: federation.Invitation{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}, code: http.StatusConflict,
			message: "resourceVersion"},
		"used invitation": {token: peeringToken(func(p *federation.PeeringToken) { p.Status.Used = true }),
			code: http.StatusConflict, message: "used"},
		"expired invitation": {token: peeringToken(), now: created.Add(time.Hour), code: http.StatusGone,
			message: "expired"},
		"PeeringToken is being deleted": {token: peeringToken(func(p *federation.PeeringToken) { p.DeletionTimestamp = &p.CreationTimestamp }), code: http.StatusConflict, message: "being deleted"},
		"no server is configured": {token: peeringToken(), provider: &Provider{ClusterName: "milan"},
			code: http.StatusConflict, message: "server"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.now.IsZero() {
				test.now = created
			}
			if test.provider == nil {
				test.provider = &provider
			}
			r, kube, _ := newVerb(t, test.token, test.now, *test.provider)
			_, err := r.Create(t.Context(), "for-rome", &test.request, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			subresourcetest.ExpectStatus(t, err, test.code, test.message)
			if actions := kube.Actions(); len(actions) > 0 {
				t.Errorf("requests of a refused POST: %v", actions)
			}
		})
	}
}

func TestInvitationDryRunCreatesNoAccount(t *testing.T) {
	r, kube, _ := newVerb(t, peeringToken(), created, provider)
	obj, err := r.Create(t.Context(), "for-rome", &federation.Invitation{}, rest.ValidateAllObjectFunc,
		&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	if status := obj.(*federation.Invitation).Status; status.Peering.Spec.Token != "" || status.Command != "" ||
		status.Peering.Spec.Server != provider.Server {
		t.Errorf("the answer is %+v", status)
	}
	if actions := kube.Actions(); len(actions) > 0 {
		t.Errorf("requests of a dry run: %v", actions)
	}
}

func TestTokenLivesAsLongAsItsInvitationAndTenMinutesAtLeast(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lifetime := rapid.Int64Range(600, 604800).Draw(rt, "lifetime")
		age := rapid.Int64Range(0, lifetime-1).Draw(rt, "age")
		now := created.Add(time.Duration(age) * time.Second)
		r, _, requested := newVerb(t, peeringToken(func(p *federation.PeeringToken) { p.Spec.ExpirationSeconds = &lifetime }),
			now, provider)
		obj, err := r.Create(t.Context(), "for-rome", &federation.Invitation{}, rest.ValidateAllObjectFunc,
			&metav1.CreateOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		if want := max(lifetime-age, 600); *requested.Spec.ExpirationSeconds != want {
			rt.Fatalf("got lifetime %d s, want %d", *requested.Spec.ExpirationSeconds, want)
		}
		if ends, want := obj.(*federation.Invitation).Status.ExpirationTime.Time,
			created.Add(time.Duration(lifetime)*time.Second); !ends.Equal(want) {
			rt.Fatalf("got expiration %s, want %s", ends, want)
		}
	})
}

// printingKubectl is a shell function that replaces kubectl: it writes its arguments to stderr and copies its input to
// stdout.
const printingKubectl = `kubectl() { printf '%s\n' "$@" >&2; cat; }; `

func TestCommandSurvivesTheShell(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		peering := &federation.Peering{
			TypeMeta:   typeMeta("Peering"),
			ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec: federation.PeeringSpec{
				Outgoing: federation.PeeringEnabled,
				Server:   "https://milan.example.org/" + rapid.StringMatching(`[ -~]{0,40}`).Draw(rt, "path"),
				CABundle: rapid.SliceOf(rapid.Byte()).Draw(rt, "bundle"),
				Token:    rapid.StringMatching(`[!-~]{1,60}`).Draw(rt, "token"),
			},
		}
		line, err := command(peering)
		if err != nil {
			rt.Fatal(err)
		}
		if strings.ContainsAny(line, "\n\r") {
			rt.Fatalf("the command is more than a line: %q", line)
		}
		shell := exec.CommandContext(t.Context(), "sh", "-c", printingKubectl+line)
		var arguments bytes.Buffer
		shell.Stderr = &arguments
		body, err := shell.Output()
		if err != nil {
			rt.Fatalf("%v: %s", err, arguments.String())
		}
		want := "create\n--raw\n/apis/federation.liqo.io/v1alpha1/foreignclusters/milan/peer\n-f\n-\n"
		if arguments.String() != want {
			rt.Fatalf("the arguments are %q", arguments.String())
		}
		got := &v1alpha1.Peering{}
		if err := json.Unmarshal(body, got); err != nil {
			rt.Fatal(err)
		}
		if got.Kind != "Peering" || got.Spec.Token != peering.Spec.Token || got.Spec.Server != peering.Spec.Server ||
			!bytes.Equal(got.Spec.CABundle, peering.Spec.CABundle) {
			rt.Fatalf("the body is %s", body)
		}
	})
}
