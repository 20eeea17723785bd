// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/integration/framework"
)

const (
	genoaID = "5b1f6a9e-7d2c-4e8b-9c3a-2d4e6f8a0b1c"
	// peerToken looks like a token and is in no other text.
	peerToken = "eyJhbGciOiJSUzI1NiJ9.do-not-show-this.signature"
)

func peerPath(name string) string {
	return "/apis/federation.liqo.io/v1alpha1/foreignclusters/" + name + "/peer"
}

func genoa() *v1alpha1.Peering {
	return &v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{ClusterID: genoaID, Server: "https://genoa.example.org:6443",
		Token: peerToken}}
}

func TestPeerThroughTheAggregator(t *testing.T) {
	env := framework.Get(t)
	ctx := t.Context()
	clusters := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1().ForeignClusters()
	secrets := env.Kube.CoreV1().Secrets(framework.InvitationNamespace)

	first, err := clusters.CreatePeer(ctx, "genoa", genoa(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := clusters.CreatePeer(ctx, "genoa", genoa(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if first.Spec.Token != "" || again.ResourceVersion != first.ResourceVersion || again.UID != first.UID {
		t.Errorf("the second answer is %s at %s, after %s at %s", again.UID, again.ResourceVersion, first.UID,
			first.ResourceVersion)
	}
	secret, err := secrets.Get(ctx, "invitation-genoa", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if secret.Type != v1alpha1.SecretTypeInvitation || string(secret.Data["token"]) != peerToken ||
		len(secret.OwnerReferences) > 0 {
		t.Errorf("the Secret is of type %s and owned by %v", secret.Type, secret.OwnerReferences)
	}
	other := genoa()
	other.Spec.Server = "https://other.example.org"
	_, err = clusters.CreatePeer(ctx, "genoa", other, metav1.CreateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, "spec.server")

	if got, err := clusters.GetPeer(ctx, "genoa", metav1.GetOptions{}); err != nil || got.Spec.Token != "" ||
		got.Spec.Server != first.Spec.Server {
		t.Errorf("GET answers %+v, %v", got, err)
	}
	table := env.Kubectl(t, "", "get", "fc", "genoa", "--subresource=peer")
	if !strings.Contains(table, "OUTGOING") || !strings.Contains(table, "Pending") {
		t.Errorf("kubectl prints\n%s", table)
	}
	_, err = clusters.Patch(ctx, "genoa", types.ApplyPatchType,
		encode(fields{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "Peering",
			"metadata": fields{"name": "genoa"}, "spec": fields{"outgoing": "Disabled"}}),
		metav1.PatchOptions{FieldManager: "test"}, "peer")
	subresourcetest.ExpectStatus(t, err, http.StatusMethodNotAllowed, "apply the ForeignCluster")
	env.Kubectl(t, "", "patch", "fc", "genoa", "--subresource=peer", "--type=merge", "--patch",
		`{"spec":{"disconnectTimeoutSeconds":7}}`)
	stale := genoa()
	stale.Name, stale.ResourceVersion, stale.Spec.Outgoing = "genoa", first.ResourceVersion, v1alpha1.PeeringDisabled
	_, err = clusters.UpdatePeer(ctx, "genoa", stale, metav1.UpdateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, "genoa")

	env.Kubectl(t, "", "delete", "--raw", peerPath("genoa")+"?gracePeriodSeconds=30")
	going, err := clusters.Get(ctx, "genoa", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if going.DeletionTimestamp == nil || *going.Spec.DisconnectTimeoutSeconds != 30 {
		t.Errorf("the cluster is %+v", going)
	}
	finish(t, env, "genoa")
	_, err = clusters.GetPeer(ctx, "genoa", metav1.GetOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusNotFound, "genoa")
}

// finish removes the finalizers of a ForeignCluster, as its controller does at the end of a
// peering, and deletes the Secret of the invitation.
func finish(t *testing.T, env *framework.Environment, name string) {
	t.Helper()
	clusters := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1().ForeignClusters()
	if _, err := clusters.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if err := env.Kube.CoreV1().Secrets(framework.InvitationNamespace).Delete(t.Context(), "invitation-"+name,
		metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func TestPeerDryRunAndRefusalsLeaveNothing(t *testing.T) {
	env := framework.Get(t)
	client := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1().ForeignClusters()
	if _, err := client.CreatePeer(t.Context(), "pisa", genoa(),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	for field, spoil := range map[string]func(*v1alpha1.Peering){
		"spec.server":    func(p *v1alpha1.Peering) { p.Spec.Server = "https://169.254.169.254" },
		"spec.token":     func(p *v1alpha1.Peering) { p.Spec.Token = peerToken + " " },
		"spec.clusterID": func(p *v1alpha1.Peering) { p.Spec.ClusterID = "pisa" },
		"spec.caBundle":  func(p *v1alpha1.Peering) { p.Spec.CABundle = []byte("no PEM") },
	} {
		bad := genoa()
		spoil(bad)
		_, err := client.CreatePeer(t.Context(), "pisa", bad, metav1.CreateOptions{})
		expectCause(t, err, field)
		if err != nil && strings.Contains(err.Error(), peerToken) {
			t.Errorf("the error shows the token: %v", err)
		}
	}
	if _, err := client.Get(t.Context(), "pisa", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a foreign cluster is left behind: %v", err)
	}
	if _, err := env.Kube.CoreV1().Secrets(framework.InvitationNamespace).Get(t.Context(), "invitation-pisa",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret is left behind: %v", err)
	}
}

func TestPermissionToPeerGrantsNothingElse(t *testing.T) {
	env := framework.Get(t)
	env.Grant(t, "peer-only", "", rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName},
		Resources: []string{"foreignclusters/peer"}, Verbs: []string{"create"}})
	client := versioned.NewForConfigOrDie(env.User(t, "peer-only")).FederationV1alpha1().ForeignClusters()
	retry(t, func() (*v1alpha1.Peering, error) {
		return client.CreatePeer(t.Context(), "lucca", genoa(), metav1.CreateOptions{})
	})
	cluster, err := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1().ForeignClusters().Get(t.Context(), "lucca",
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	attempts := map[string]error{}
	_, attempts["get"] = client.Get(t.Context(), "lucca", metav1.GetOptions{})
	_, attempts["update"] = client.Update(t.Context(), cluster, metav1.UpdateOptions{})
	_, attempts["get peer"] = client.GetPeer(t.Context(), "lucca", metav1.GetOptions{})
	_, attempts["update peer"] = client.UpdatePeer(t.Context(), "lucca",
		&v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "lucca"}}, metav1.UpdateOptions{})
	attempts["delete"] = client.Delete(t.Context(), "lucca", metav1.DeleteOptions{})
	for what, err := range attempts {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s is answered with %v", what, err)
		}
	}
	if err := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1().ForeignClusters().Delete(t.Context(), "lucca",
		metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	finish(t, env, "lucca")
}

func TestTokenNeverLogged(t *testing.T) {
	env := framework.Get(t)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy,
		[]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	audit := filepath.Join(t.TempDir(), "audit.log")
	server := env.StartServer(t, t.TempDir(), "--v=10", "--audit-policy-file="+policy, "--audit-log-path="+audit)
	client := versioned.NewForConfigOrDie(server.Client(env.ServiceAccount(t, framework.Namespace, "token-tester")))
	user := fmt.Sprintf("system:serviceaccount:%s:token-tester", framework.Namespace)
	env.Grant(t, user, "", rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName},
		Resources: []string{"foreignclusters", "foreignclusters/peer", "peeringtokens", "peeringtokens/invitation"},
		Verbs:     []string{"create", "get", "update", "delete", "patch"}})
	clusters := client.FederationV1alpha1().ForeignClusters()
	retry(t, func() (*v1alpha1.Peering, error) {
		return clusters.CreatePeer(t.Context(), "siena", genoa(), metav1.CreateOptions{})
	})
	bad := genoa()
	bad.Spec.Token += "\n"
	if _, err := clusters.CreatePeer(t.Context(), "siena", bad, metav1.CreateOptions{}); err == nil {
		t.Error("a bad token is accepted")
	}
	renewed := genoa()
	renewed.Name, renewed.Spec.Outgoing, renewed.Spec.Token = "siena", v1alpha1.PeeringEnabled, peerToken+"2"
	if _, err := clusters.UpdatePeer(t.Context(), "siena", renewed, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	// The response quotes the token to its sender, but the log must not contain it.
	_, err := clusters.PatchPeer(t.Context(), "siena", types.MergePatchType,
		encode(fields{"spec": fields{"token": peerToken, "outgoing": 7}}), metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), peerToken) {
		t.Errorf("a patch of another type is answered with %v", err)
	}
	token := &v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{Name: "for-siena"}}
	if _, err := client.FederationV1alpha1().PeeringTokens().Create(t.Context(), token,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	invitation, err := client.FederationV1alpha1().PeeringTokens().CreateInvitation(t.Context(), "for-siena",
		&v1alpha1.Invitation{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]string{"the log": server.Log(t)}
	content, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	written["the audit log"] = string(content)
	for name, text := range written {
		if !strings.Contains(text, "siena") {
			t.Errorf("%s does not mention the requests at all", name)
		}
		for _, secret := range []string{peerToken, invitation.Status.Peering.Spec.Token,
			base64.StdEncoding.EncodeToString([]byte(peerToken))} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows a token", name)
			}
		}
	}
	if err := env.Kube.CoreV1().Secrets(framework.InvitationNamespace).Delete(t.Context(), "invitation-siena",
		metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
