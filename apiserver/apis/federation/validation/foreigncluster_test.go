// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
)

func goodCluster() *federation.ForeignCluster {
	return &federation.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan"},
		Spec: federation.ForeignClusterSpec{
			ClusterID: milanID, Outgoing: federation.PeeringEnabled, Incoming: federation.PeeringDisabled,
			Server: "https://milan.example.org:6443", InvitationSecretName: "invitation-milan",
			Resources: quantities("cpu", "4", "memory", "8Gi", "pods", "20"), DisconnectTimeoutSeconds: ptr.To[int32](0),
		},
	}
}

func TestValidateForeignCluster(t *testing.T) {
	runCreate(t, goodCluster(), ValidateForeignCluster, map[string]wrong[*federation.ForeignCluster]{
		"no name":                 {func(c *federation.ForeignCluster) { c.Name = "" }, []string{"metadata.name"}},
		"a name with dots":        {func(c *federation.ForeignCluster) { c.Name = "milan.it" }, []string{"metadata.name"}},
		"a name that is too long": {func(c *federation.ForeignCluster) { c.Name = strings.Repeat("m", 41) }, []string{"metadata.name"}},
		"a path as a name":        {func(c *federation.ForeignCluster) { c.Name = "../milan" }, []string{"metadata.name"}},
		"no UUID":                 {func(c *federation.ForeignCluster) { c.Spec.ClusterID = "milan" }, []string{"spec.clusterID"}},
		"a UUID in capitals":      {func(c *federation.ForeignCluster) { c.Spec.ClusterID = strings.ToUpper(milanID) }, []string{"spec.clusterID"}},
		"an unknown intent":       {func(c *federation.ForeignCluster) { c.Spec.Incoming = "Maybe" }, []string{"spec.incoming"}},
		"no intent":               {func(c *federation.ForeignCluster) { c.Spec.Outgoing = "" }, []string{"spec.outgoing"}},
		"an unknown network mode": {func(c *federation.ForeignCluster) { c.Spec.Networking = "Round" }, []string{"spec.networking"}},
		"a reach":                 {func(c *federation.ForeignCluster) { c.Spec.Reach = federation.ReachOffloaded }, nil},
		"an unknown reach":        {func(c *federation.ForeignCluster) { c.Spec.Reach = "Few" }, []string{"spec.reach"}},
		"an API access":           {func(c *federation.ForeignCluster) { c.Spec.APIAccess = federation.APIAccessDisabled }, nil},
		"an unknown API access":   {func(c *federation.ForeignCluster) { c.Spec.APIAccess = "Home" }, []string{"spec.apiAccess"}},
		"CIDRs to keep": {func(c *federation.ForeignCluster) {
			c.Spec.KeepCIDRs = []string{"10.0.0.0/8", "10.64.0.0/10", "fd00:1::/48"}
		}, nil},
		"a malformed CIDR to keep": {func(c *federation.ForeignCluster) { c.Spec.KeepCIDRs = []string{"10.0.0.0/8", "all"} }, []string{"spec.keepCIDRs[1]"}},
		"every CIDR to keep":       {func(c *federation.ForeignCluster) { c.Spec.KeepCIDRs = []string{"0.0.0.0/0"} }, []string{"spec.keepCIDRs[0]"}},
		"a CIDR to keep twice":     {func(c *federation.ForeignCluster) { c.Spec.KeepCIDRs = []string{"10.0.0.0/8", "10.0.0.0/8"} }, []string{"spec.keepCIDRs[1]"}},
		"too many CIDRs to keep":   {func(c *federation.ForeignCluster) { c.Spec.KeepCIDRs = many(MaxKeepCIDRs, numberedCIDR) }, []string{"spec.keepCIDRs"}},
		"no server":                {func(c *federation.ForeignCluster) { c.Spec.Server = "" }, []string{"spec.server"}},
		"no PEM":                   {func(c *federation.ForeignCluster) { c.Spec.CABundle = []byte("certificates") }, []string{"spec.caBundle"}},
		"a Secret beyond":          {func(c *federation.ForeignCluster) { c.Spec.InvitationSecretName = "../other" }, []string{"spec.invitationSecretName"}},
		"a negative quantity":      {func(c *federation.ForeignCluster) { c.Spec.Resources = quantities("cpu", "-1") }, []string{"spec.resources[cpu]"}},
		"half a pod":               {func(c *federation.ForeignCluster) { c.Spec.Resources = quantities("pods", "0.5") }, []string{"spec.resources[pods]"}},
		"an invalid resource":      {func(c *federation.ForeignCluster) { c.Spec.Resources = quantities("a b", "1") }, []string{"spec.resources[a b]"}},
		"an unknown resource":      {func(c *federation.ForeignCluster) { c.Spec.Resources = quantities("cpus", "1") }, []string{"spec.resources[cpus]"}},
		"storage of no quota":      {func(c *federation.ForeignCluster) { c.Spec.Resources = quantities("requests.storage", "1") }, []string{"spec.resources[requests.storage]"}},
		"a negative timeout":       {func(c *federation.ForeignCluster) { c.Spec.DisconnectTimeoutSeconds = ptr.To[int32](-1) }, []string{"spec.disconnectTimeoutSeconds"}},
		"a timeout of over a day":  {func(c *federation.ForeignCluster) { c.Spec.DisconnectTimeoutSeconds = ptr.To[int32](86401) }, []string{"spec.disconnectTimeoutSeconds"}},
		"a negative orphanTTL": {func(c *federation.ForeignCluster) {
			c.Spec.IncomingPolicy.OrphanTTL = &metav1.Duration{Duration: -time.Hour}
		}, []string{"spec.incomingPolicy.orphanTTL"}},
		"a hasty orphanTTL": {func(c *federation.ForeignCluster) {
			c.Spec.IncomingPolicy.OrphanTTL = &metav1.Duration{Duration: 59 * time.Second}
		}, []string{"spec.incomingPolicy.orphanTTL"}},
		"one remote namespace": {func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.MaxRemoteNamespaces = ptr.To[int32](1) }, nil},
		"objects of 4 KiB": {func(c *federation.ForeignCluster) {
			c.Spec.IncomingPolicy.MaxObjectBytes = ptr.To[int64](4096)
		}, nil},
		"objects of 0 bytes": {func(c *federation.ForeignCluster) {
			c.Spec.IncomingPolicy.MaxObjectBytes = ptr.To[int64](0)
		}, []string{"spec.incomingPolicy.maxObjectBytes"}},
		"no remote namespace":            {func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.MaxRemoteNamespaces = ptr.To[int32](0) }, []string{"spec.incomingPolicy.maxRemoteNamespaces"}},
		"refused pods that are evicted":  {func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.RefusedPods = federation.RefusedPodsEvict }, nil},
		"an unknown end of refused pods": {func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.RefusedPods = "Delete" }, []string{"spec.incomingPolicy.refusedPods"}},
		"a round shape":                  {func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.Shape = "Round" }, []string{"spec.incomingPolicy.shape"}},
		"nothing shared":                 {func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.SharePercent = ptr.To[int32](0) }, []string{"spec.incomingPolicy.sharePercent"}},
		"more than 100 percent":          {func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.SharePercent = ptr.To[int32](101) }, []string{"spec.incomingPolicy.sharePercent"}},
		"a limit for no class": {func(c *federation.ForeignCluster) {
			c.Spec.IncomingPolicy.Limits = quantities("A.storageclass.storage.k8s.io/requests.storage", "1")
		}, []string{"spec.incomingPolicy.limits[A.storageclass.storage.k8s.io/requests.storage]"}},
		"paths of nodes": {func(c *federation.ForeignCluster) {
			c.Spec.IncomingPolicy.ExternalVolumes.Types = []string{"hostPath"}
		}, []string{"spec.incomingPolicy.externalVolumes.types[0]"}},
		"a negative limit": {func(c *federation.ForeignCluster) { c.Spec.IncomingPolicy.Limits = quantities("cpu", "-1") }, []string{"spec.incomingPolicy.limits[cpu]"}},
		"a control plane": {func(c *federation.ForeignCluster) {
			c.Spec.IncomingPolicy.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
		}, []string{"spec.incomingPolicy.labels[node-role.kubernetes.io/control-plane]"}},
		"invalid classes": {func(c *federation.ForeignCluster) {
			c.Spec.IncomingPolicy.StorageClasses = []string{"a/b"}
			c.Spec.IncomingPolicy.IngressClasses = []string{"a,b"}
			c.Spec.IncomingPolicy.LoadBalancerClasses = []string{"a", "a"}
		}, []string{"spec.incomingPolicy.ingressClasses[0]", "spec.incomingPolicy.loadBalancerClasses[1]",
			"spec.incomingPolicy.storageClasses[0]"}},
		"a reason without a decision": {func(c *federation.ForeignCluster) {
			c.Spec.IncomingPolicy.Decision, c.Spec.IncomingPolicy.Reason = federation.PeeringManual, "later"
		}, []string{"spec.incomingPolicy.reason"}},
		"nodes with an invalid label": {func(c *federation.ForeignCluster) {
			c.Spec.IncomingPolicy.NodeSelector = map[string]string{"a b": "c"}
		}, []string{"spec.incomingPolicy.nodeSelector"}},
		"several things at once": {func(c *federation.ForeignCluster) { c.Spec.ClusterID, c.Spec.Server = "x", "y" }, []string{"spec.clusterID", "spec.server"}},
		"an invalid label":       {func(c *federation.ForeignCluster) { c.Labels = map[string]string{"a b": "c"} }, []string{"metadata.labels"}},
		"more resources than fits": {func(c *federation.ForeignCluster) {
			for i := range maxResources + 1 {
				c.Spec.Resources[corev1.ResourceName(fmt.Sprintf("example.org/r%d", i))] = c.Spec.Resources["cpu"]
			}
		}, []string{"spec.resources"}},
	})
}

func TestOrphanTTLIsZeroOrAtLeastOneMinute(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Minute, 10000 * time.Hour} {
		c := goodCluster()
		c.Spec.IncomingPolicy.OrphanTTL = &metav1.Duration{Duration: ttl}
		if errs := ValidateForeignCluster(c); len(errs) > 0 {
			t.Errorf("%s: %v", ttl, errs)
		}
	}
}

func TestValidateForeignClusterUpdate(t *testing.T) {
	runUpdate(t, goodCluster(), ValidateForeignClusterUpdate, map[string]wrong[*federation.ForeignCluster]{
		"another cluster": {func(c *federation.ForeignCluster) { c.Spec.ClusterID = romeID }, []string{"spec.clusterID"}},
		"no cluster":      {func(c *federation.ForeignCluster) { c.Spec.ClusterID = "" }, []string{"spec.clusterID"}},
		"a bad server":    {func(c *federation.ForeignCluster) { c.Spec.Server = "milan" }, []string{"spec.server"}},
		"another name":    {func(c *federation.ForeignCluster) { c.Name = "rome" }, []string{"metadata.name"}},
	})
	unidentified := goodCluster()
	unidentified.Spec.ClusterID, unidentified.ResourceVersion = "", "1"
	identified := unidentified.DeepCopy()
	identified.Spec.ClusterID = milanID
	if errs := ValidateForeignClusterUpdate(identified, unidentified); len(errs) > 0 {
		t.Errorf("the cluster ID cannot be set: %v", errs)
	}
}

func TestResourcesAreKnownOrExtended(t *testing.T) {
	const classStorage = "fast.storageclass.storage.k8s.io/requests.storage"
	for name, want := range map[string]string{
		"cpu": "", "memory": "", "pods": "", "ephemeral-storage": "", "hugepages-2Mi": "", "nvidia.com/gpu": "",
		"requests.storage": "", "persistentvolumeclaims": "", classStorage: "",
		"cpus": "cpu?", "mem": "memory", "request.storage": "requests.storage?", "Memory": "memory?",
		"persistentvolumeclaim": "persistentvolumeclaims?", "storage": "requests.storage?", "requests.cpu": "extended resource",
		"fast.storageclas.storage.k8s.io/requests.storage": "<class>.storageclass.storage.k8s.io/requests.storage?",
	} {
		cluster := goodCluster()
		cluster.Spec.IncomingPolicy.Limits = quantities(name, "1")
		errs := ValidateForeignCluster(cluster)
		if (len(errs) > 0) != (want != "") || !strings.Contains(fmt.Sprint(errs.ToAggregate()), want) {
			t.Errorf("%s: got %v, want an error with %q", name, errs, want)
		}
		// A name that an earlier version stored must not prevent other changes, for example of finalizers.
		cluster.ResourceVersion = "1"
		if errs := ValidateForeignClusterUpdate(cluster, cluster.DeepCopy()); len(errs) > 0 {
			t.Errorf("%s is stored, and an update fails: %v", name, errs)
		}
	}
}

func TestValidateForeignClusterStatusUpdate(t *testing.T) {
	good := goodCluster()
	good.Status = federation.ForeignClusterStatus{
		ObservedGeneration: 1, OutgoingPeering: federation.PeeringEstablished, IncomingPeering: federation.PeeringNone,
		Networking: federation.PeeringNone, Authentication: federation.PeeringEstablished,
		PeerNamespace: "liqo-peer-milan", RemoteTenantNamespace: "liqo-tenant-rome", VirtualNodes: 1,
		LatencyMicroseconds: 4200,
		Conditions:          []metav1.Condition{condition()},
		Policies: many(maxPolicies-1, func(i int) federation.EffectivePolicy {
			return federation.EffectivePolicy{
				Name: fmt.Sprintf("incomingPolicy.policy%d", i), Binds: federation.PeerRoleConsumer,
				Value: strings.Repeat("x", MaxPolicyValue), Source: federation.PolicySourceTrust,
			}
		}),
	}
	policy := func(change func(*federation.EffectivePolicy)) func(*federation.ForeignCluster) {
		return func(c *federation.ForeignCluster) { change(&c.Status.Policies[0]) }
	}
	runUpdate(t, good, ValidateForeignClusterStatusUpdate, map[string]wrong[*federation.ForeignCluster]{
		"an unknown phase":            {func(c *federation.ForeignCluster) { c.Status.OutgoingPeering = "Great" }, []string{"status.outgoingPeering"}},
		"an unknown network":          {func(c *federation.ForeignCluster) { c.Status.Networking = "Great" }, []string{"status.networking"}},
		"no namespace":                {func(c *federation.ForeignCluster) { c.Status.PeerNamespace = "a/b" }, []string{"status.peerNamespace"}},
		"a remote path":               {func(c *federation.ForeignCluster) { c.Status.RemoteTenantNamespace = "../x" }, []string{"status.remoteTenantNamespace"}},
		"a negative latency":          {func(c *federation.ForeignCluster) { c.Status.LatencyMicroseconds = -1 }, []string{"status.latencyMicroseconds"}},
		"a negative count":            {func(c *federation.ForeignCluster) { c.Status.VirtualNodes = -1 }, []string{"status.virtualNodes"}},
		"a negative generation":       {func(c *federation.ForeignCluster) { c.Status.ObservedGeneration = -1 }, []string{"status.observedGeneration"}},
		"a condition twice":           {func(c *federation.ForeignCluster) { c.Status.Conditions = append(c.Status.Conditions, condition()) }, []string{"status.conditions[1]"}},
		"an unknown condition status": {func(c *federation.ForeignCluster) { c.Status.Conditions[0].Status = "Perhaps" }, []string{"status.conditions[0].status"}},
		"a message that is too long": {func(c *federation.ForeignCluster) {
			c.Status.Conditions[0].Message = strings.Repeat("x", 32<<10+1)
		}, []string{"status.conditions[0].message"}},
		"too many conditions": {func(c *federation.ForeignCluster) {
			c.Status.Conditions = many(maxConditions, func(i int) metav1.Condition {
				return condition(func(c *metav1.Condition) { c.Type = fmt.Sprintf("Type%d", i) })
			})
		}, []string{"status.conditions"}},
		"a policy without a name": {policy(func(p *federation.EffectivePolicy) { p.Name = "" }),
			[]string{"status.policies[0].name"}},
		"a policy with a long name": {policy(func(p *federation.EffectivePolicy) {
			p.Name = strings.Repeat("x", maxPolicyName+1)
		}), []string{"status.policies[0].name"}},
		"a policy of an unknown role": {policy(func(p *federation.EffectivePolicy) { p.Binds = "Peer" }),
			[]string{"status.policies[0].binds"}},
		"a policy with a long value": {policy(func(p *federation.EffectivePolicy) { p.Value += "x" }),
			[]string{"status.policies[0].value"}},
		"a policy with control characters": {policy(func(p *federation.EffectivePolicy) { p.Value = "\x1b[2J" }),
			[]string{"status.policies[0].value"}},
		"a policy of two lines": {policy(func(p *federation.EffectivePolicy) { p.Value = "a\nb" }),
			[]string{"status.policies[0].value"}},
		"a policy from an unknown source": {policy(func(p *federation.EffectivePolicy) { p.Source = "Flag" }),
			[]string{"status.policies[0].source"}},
		"a policy twice": {func(c *federation.ForeignCluster) { c.Status.Policies[1].Name = c.Status.Policies[0].Name },
			[]string{"status.policies[1]"}},
		"too many policies": {func(c *federation.ForeignCluster) {
			c.Status.Policies = append(c.Status.Policies, c.Status.Policies[0], c.Status.Policies[1])
		}, []string{"status.policies"}},
	})
}

func TestValidateNewPeering(t *testing.T) {
	good := &federation.Peering{Spec: federation.PeeringSpec{Outgoing: federation.PeeringEnabled,
		Server: "https://milan.example.org", Token: "abc.def"}}
	validate := func(p *federation.Peering) field.ErrorList { return ValidateNewPeering(p, "milan") }
	runCreate(t, good, validate, map[string]wrong[*federation.Peering]{
		"an end instead":            {func(p *federation.Peering) { p.Spec.Outgoing = federation.PeeringDisabled }, []string{"spec.outgoing"}},
		"no server":                 {func(p *federation.Peering) { p.Spec.Server = "" }, []string{"spec.server"}},
		"a token with a space":      {func(p *federation.Peering) { p.Spec.Token = "top secret" }, []string{"spec.token"}},
		"a token of another script": {func(p *federation.Peering) { p.Spec.Token = "sécret" }, []string{"spec.token"}},
		"a token without an end":    {func(p *federation.Peering) { p.Spec.Token = strings.Repeat("t", maxToken+1) }, []string{"spec.token"}},
		"no cluster id":             {func(p *federation.Peering) { p.Spec.ClusterID = "milan" }, []string{"spec.clusterID"}},
	})
	if diff := paths(ValidateNewPeering(good, "Milan")); len(diff) != 1 || diff[0] != "metadata.name" {
		t.Errorf("a bad name is refused for %v", diff)
	}
}

func TestErrorsNeverContainACredential(t *testing.T) {
	const secret = "hunter2"
	for name, peering := range map[string]*federation.Peering{
		"a bad token":               {Spec: federation.PeeringSpec{Token: secret + "\x00"}},
		"a long token":              {Spec: federation.PeeringSpec{Token: strings.Repeat(secret, maxToken)}},
		"a password in the server":  {Spec: federation.PeeringSpec{Server: "https://admin:" + secret + "@milan.example.org"}},
		"a password in a bad URL":   {Spec: federation.PeeringSpec{Server: "https://admin:" + secret + "@mi lan"}},
		"a password and no https":   {Spec: federation.PeeringSpec{Server: "http://admin:" + secret + "@milan"}},
		"a password in a query":     {Spec: federation.PeeringSpec{Server: "https://milan?token=" + secret}},
		"a password in a fragment":  {Spec: federation.PeeringSpec{Server: "https://milan#" + secret}},
		"a private key as a bundle": {Spec: federation.PeeringSpec{CABundle: []byte("-----BEGIN PRIVATE KEY-----\n" + secret + "\n-----END PRIVATE KEY-----")}},
	} {
		t.Run(name, func(t *testing.T) {
			peering.Spec.Outgoing = federation.PeeringEnabled
			errs := ValidatePeering(peering)
			if len(errs) == 0 {
				t.Fatal("it is accepted")
			}
			if message := errs.ToAggregate().Error(); strings.Contains(message, secret) {
				t.Errorf("the error contains it: %s", message)
			}
		})
	}
}
