/* The same for what deals with packets. */
#include <linux/etherdevice.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netlink.h>
#include <net/route.h>
#include <net/sock.h>
#include <net/xfrm.h>
#include "core.h"
